//! Keys of `tollgate top`: the bytes that a terminal sends for them.

use super::api::TopOrder;
use super::state::TopKey;

/// Bytes of a key, and its command. Terminals send arrows in two forms (ECMA-48 CUU, and the application mode of DEC).
const KEYS: [(&[u8], TopKey); 14] = [
    (b"d", TopKey::Sort(TopOrder::Denied)),
    (b"c", TopKey::Sort(TopOrder::Calls)),
    (b"n", TopKey::Sort(TopOrder::Near)),
    (b"w", TopKey::Sort(TopOrder::New)),
    (b"r", TopKey::NextRule),
    (b"q", TopKey::Quit),
    // Ctrl-C, which sends no signal while the terminal passes on each key.
    (b"\x03", TopKey::Quit),
    (b"\x1b[A", TopKey::Up),
    (b"\x1bOA", TopKey::Up),
    (b"\x1b[B", TopKey::Down),
    (b"\x1bOB", TopKey::Down),
    (b"\x1b[5~", TopKey::PageUp),
    (b"\x1b[6~", TopKey::PageDown),
    (b" ", TopKey::PageDown),
];

/// Returns the keys in bytes that came at once; unknown bytes are none.
pub(super) fn keys(mut bytes: &[u8]) -> Vec<TopKey> {
    let mut keys = Vec::new();
    while !bytes.is_empty() {
        let found = KEYS.iter().find(|(sequence, _)| bytes.starts_with(sequence));
        let len = found.map_or_else(|| unknown_len(bytes), |(sequence, _)| sequence.len());
        keys.extend(found.map(|(_, key)| *key));
        bytes = &bytes[len..];
    }
    keys
}

/// Returns the length of an unknown key: of a control sequence up to its final byte, or one byte.
fn unknown_len(bytes: &[u8]) -> usize {
    let Some(sequence) = bytes.strip_prefix(b"\x1b[") else { return 1 };
    sequence.iter().position(|byte| (0x40..=0x7e).contains(byte)).map_or(bytes.len(), |end| end + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        for (bytes, expected) in [
            (
                &b"dcnw"[..],
                vec![TopOrder::Denied, TopOrder::Calls, TopOrder::Near, TopOrder::New]
                    .into_iter()
                    .map(TopKey::Sort)
                    .collect(),
            ),
            (b"r\x03", vec![TopKey::NextRule, TopKey::Quit]),
            (
                b"\x1b[A\x1bOB\x1b[5~\x1b[6~q",
                vec![TopKey::Up, TopKey::Down, TopKey::PageUp, TopKey::PageDown, TopKey::Quit],
            ),
            // The letters of other sequences are no keys.
            (b"\x1b[1;5c\x1b[200q\x1b[3~r", vec![TopKey::NextRule]),
            (b"\x1b[", vec![]),
            (b"\x1b", vec![]),
            (b"xyz\xff", vec![]),
        ] {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }
}
