//! Random numbers and words from a seed.

pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `end` (splitmix64).
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % end as u64).expect("is below a usize")
    }

    pub(crate) fn pick<'t, T>(&mut self, items: &'t [T]) -> &'t T {
        &items[self.below(items.len())]
    }

    pub(crate) fn word(&mut self) -> String {
        let words = ["", "a", "z", "mid", "end", "/", "x1", "user-7", "ß", "a.b", "per cent %", "\n"];
        (*self.pick(&words)).to_owned()
    }

    /// Returns a text that may match the pattern: each `*` is replaced by a word.
    pub(crate) fn filled(&mut self, pattern: &str) -> String {
        let mut text = String::new();
        for (i, part) in pattern.split('*').enumerate() {
            if i > 0 {
                text.push_str(&self.word());
            }
            text.push_str(part);
        }
        text
    }
}
