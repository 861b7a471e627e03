//! Key sets: the keys of the callers, and the order in which each thread presents them.
//!
//! A sequence holds its own copies of the keys in the order of the calls, as a gateway has the key of a call at hand: no
//! contender pays for the fetch of the key itself.

use fastrand::Rng;

const SEQUENCE_LEN: usize = 1 << 19;
/// Number of calls between two looks at the clock.
const BLOCK_LEN: usize = 1 << 9;
/// Distance between the places at which two rounds begin, in blocks.
const ROUND_BLOCKS: usize = 331;
/// Exponent of the skewed set: the most frequent key of 10,000 has about one call in seven.
const ZIPF_EXPONENT: f64 = 1.1;

/// Keys, and a sequence of calls for each thread.
pub(crate) struct KeySet {
    pub(crate) name: &'static str,
    /// All keys, each once.
    pub(crate) keys: Vec<String>,
    pub(crate) sequences: [Vec<String>; 2],
}

impl KeySet {
    /// A single key.
    pub(crate) fn hot() -> Self {
        Self::new("hot", 1, |_| 0)
    }

    pub(crate) fn zipf_10k() -> Self {
        let mut total = 0.0;
        let cumulative: Vec<f64> = (1..=10_000)
            .map(|rank| {
                total += f64::from(rank).powf(-ZIPF_EXPONENT);
                total
            })
            .collect();
        Self::new("10k", cumulative.len(), |rng| {
            let drawn = rng.f64() * total;
            cumulative.partition_point(|sum| *sum < drawn).min(cumulative.len() - 1)
        })
    }

    /// A million keys, all equally frequent: every call misses the caches of the processor.
    pub(crate) fn uniform_1m() -> Self {
        Self::new("1M", 1_000_000, |rng| rng.usize(..1_000_000))
    }

    fn new(name: &'static str, keys: usize, draw: impl Fn(&mut Rng) -> usize) -> Self {
        let sequence = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..SEQUENCE_LEN).map(|_| key(draw(&mut rng))).collect()
        };
        Self { name, keys: (0..keys).map(key).collect(), sequences: [sequence(1), sequence(2)] }
    }

    /// Returns the calls of a thread in blocks, without end. Rounds begin at different places.
    pub(crate) fn blocks(&self, thread: usize, round: usize) -> impl Iterator<Item = &[String]> {
        let blocks = self.sequences[thread].chunks(BLOCK_LEN);
        let skipped = round * ROUND_BLOCKS % blocks.len();
        blocks.cycle().skip(skipped)
    }
}

/// Returns a key of 24 bytes.
fn key(number: usize) -> String {
    format!("acme-{:04}:user-{number:09}", number % 7_919)
}
