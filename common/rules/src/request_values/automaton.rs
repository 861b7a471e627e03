//! Search for the shortest text that a regular expression matches, among the values that requests can have.
//!
//! The set of these values ([`RequestTexts`]) is a machine that reads one byte after another, and so is the expression. A text that both
//! accept is a way through the pairs of their states; if there is none, the expression certainly matches no value. Samples of
//! values were rejected, because an expression that matches none of them may match another value.

use std::collections::HashSet;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::start;

/// Maximum number of pairs of states that a search visits.
const PAIRS_LEN_MAX: usize = 4_000;
/// Minimum length of a segment that is a hexadecimal id, in characters (`tollgate_core::request_path`).
const HEX_LEN_MIN: u8 = 8;
const UUID_LEN: u8 = 36;

/// Set of texts of visible ASCII characters, of which the target and the method of a request consist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestTexts {
    /// All.
    Any,
    /// Methods in upper case.
    Methods,
    /// Paths without a query.
    RawPaths,
    /// Normal forms of paths.
    Paths(Ids),
}

/// Segments of a path that are taken for ids, which normal forms lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    /// None.
    Unknown,
    /// Those of normal forms.
    Normal,
    /// Those of normal forms, and hexadecimal text that has no digit by chance.
    Likely,
}

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shortest {
    Text(String),
    Absent,
    /// The search was given up.
    Unknown,
}

/// Search over one regular expression.
pub(super) struct RegexSearch {
    dfa: DFA,
    cache: Cache,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TextState {
    Start,
    /// The path `/`.
    Root,
    /// A slash after a segment.
    Slash,
    Segment(Segment),
    Other,
}

/// Beginning of a segment, as far as it may become one that a normal form lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Segment {
    len: u8,
    hex: Hexadecimal,
    is_dots: bool,
    is_uuid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Hexadecimal {
    No,
    Letters,
    Digits,
    Mixed,
}

/// Pair of states, and the step that led to it.
#[derive(Clone, Copy)]
struct Step {
    from: usize,
    byte: u8,
    text: TextState,
    /// None once the expression has matched.
    regex: Option<LazyStateID>,
}

impl RequestTexts {
    fn next(self, state: TextState, byte: u8) -> Option<TextState> {
        match self {
            Self::Any => Some(TextState::Other),
            Self::Methods => (!byte.is_ascii_lowercase()).then_some(TextState::Other),
            Self::RawPaths | Self::Paths(_) if state == TextState::Start && byte != b'/' => None,
            Self::RawPaths => (!b"?#".contains(&byte)).then_some(TextState::Other),
            Self::Paths(_) if b"?#;".contains(&byte) => None,
            Self::Paths(ids) => match (state, byte) {
                (TextState::Start, _) => Some(TextState::Root),
                (TextState::Segment(segment), b'/') => segment.is_complete(ids).then_some(TextState::Slash),
                (_, b'/') => None,
                (TextState::Segment(segment), _) => Some(TextState::Segment(segment.followed_by(byte))),
                _ => Some(TextState::Segment(Segment::EMPTY.followed_by(byte))),
            },
        }
    }

    fn is_complete(self, state: TextState) -> bool {
        match (state, self) {
            (TextState::Start | TextState::Slash, _) => false,
            (TextState::Segment(segment), Self::Paths(ids)) => segment.is_complete(ids),
            _ => true,
        }
    }
}

impl Segment {
    const EMPTY: Self = Self { len: 0, hex: Hexadecimal::No, is_dots: true, is_uuid: true };
    /// One that never becomes an id.
    const PLAIN: Self = Self { len: HEX_LEN_MIN, hex: Hexadecimal::No, is_dots: false, is_uuid: false };

    fn followed_by(self, byte: u8) -> Self {
        let is_hyphen = matches!(self.len, 8 | 13 | 18 | 23);
        let next = Self {
            len: self.len + 1,
            hex: self.hex_followed_by(byte),
            is_dots: self.is_dots && byte == b'.' && self.len < 2,
            is_uuid: self.is_uuid
                && self.len < UUID_LEN
                && if is_hyphen { byte == b'-' } else { byte.is_ascii_hexdigit() },
        };
        match next {
            Self { is_uuid: true, .. } => next,
            Self { hex: Hexadecimal::No, is_dots: false, .. } => Self::PLAIN,
            // Longer ones are alike.
            _ => Self { len: next.len.min(HEX_LEN_MIN), ..next },
        }
    }

    fn hex_followed_by(self, byte: u8) -> Hexadecimal {
        let own = match byte {
            b'0'..=b'9' => Hexadecimal::Digits,
            b'a'..=b'f' | b'A'..=b'F' => Hexadecimal::Letters,
            _ => Hexadecimal::No,
        };
        match (self.hex, own) {
            _ if self.len == 0 => own,
            (Hexadecimal::No, _) | (_, Hexadecimal::No) => Hexadecimal::No,
            (before, own) if before == own => own,
            _ => Hexadecimal::Mixed,
        }
    }

    /// Returns true if a normal form may have the segment as it is.
    fn is_complete(self, ids: Ids) -> bool {
        let is_id = match self.hex {
            Hexadecimal::Digits => true,
            Hexadecimal::Mixed => self.len >= HEX_LEN_MIN,
            Hexadecimal::Letters => self.len >= HEX_LEN_MIN && ids == Ids::Likely,
            Hexadecimal::No => self.is_uuid && self.len == UUID_LEN,
        };
        !self.is_dots && (ids == Ids::Unknown || !is_id)
    }
}

impl RegexSearch {
    /// Creates a search; none for an expression that is too large.
    pub(super) fn of(regex: &str) -> Option<Self> {
        // A cleared cache would give other states the same numbers.
        let config = DFA::config().unicode_word_boundary(true).minimum_cache_clear_count(Some(0));
        let dfa = DFA::builder().configure(config).build(regex).ok()?;
        let cache = dfa.create_cache();
        Some(Self { dfa, cache })
    }

    /// Returns the shortest text that the expression matches and the set contains.
    pub(super) fn shortest(&mut self, texts: RequestTexts) -> Shortest {
        match self.find(texts) {
            Some(Some(text)) => Shortest::Text(text),
            Some(None) => Shortest::Absent,
            None => Shortest::Unknown,
        }
    }

    #[expect(clippy::option_option, reason = "the outer one ends the search")]
    fn find(&mut self, texts: RequestTexts) -> Option<Option<String>> {
        let start = self.dfa.start_state(&mut self.cache, &start::Config::new()).ok()?;
        let mut steps = vec![Step { from: 0, byte: 0, text: TextState::Start, regex: Some(start) }];
        let mut seen = HashSet::from([(TextState::Start, Some(start))]);
        let mut place = 0;
        while let Some(&step) = steps.get(place) {
            let has_matched = match step.regex {
                None => true,
                Some(state) => self.dfa.next_eoi_state(&mut self.cache, state).ok()?.is_match(),
            };
            if has_matched && texts.is_complete(step.text) {
                return Some(Some(text_to(&steps, place)));
            }
            if steps.len() > PAIRS_LEN_MAX {
                return None;
            }
            for byte in visible() {
                let Some(text) = texts.next(step.text, byte) else { continue };
                let regex = match step.regex {
                    None => None,
                    Some(state) => {
                        let next = self.dfa.next_state(&mut self.cache, state, byte).ok()?;
                        if next.is_quit() {
                            return None;
                        }
                        if next.is_dead() {
                            continue;
                        }
                        // The expression matched before this byte, so whatever follows matches as well.
                        (!next.is_match()).then_some(next)
                    }
                };
                if seen.insert((text, regex)) {
                    steps.push(Step { from: place, byte, text, regex });
                }
            }
            place += 1;
        }
        Some(None)
    }
}

/// Returns all visible ASCII characters, letters and digits first.
fn visible() -> impl Iterator<Item = u8> {
    let words = || (b'a'..=b'z').chain(b'A'..=b'Z').chain(b'0'..=b'9');
    words().chain((b'!'..=b'~').filter(|byte| !byte.is_ascii_alphanumeric()))
}

fn text_to(steps: &[Step], mut place: usize) -> String {
    let mut text = Vec::new();
    while place != 0 {
        text.push(char::from(steps[place].byte));
        place = steps[place].from;
    }
    text.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_core::request_path::normalize;

    use super::*;

    fn is_in(texts: RequestTexts, text: &str) -> bool {
        let state = text.bytes().try_fold(TextState::Start, |state, byte| texts.next(state, byte));
        state.is_some_and(|state| texts.is_complete(state))
    }

    proptest! {
        /// The machine is another form of `request_path`: it accepts each normal form, and of paths without escapes no others.
        #[test]
        fn the_paths_of_the_machine_are_the_normal_forms(
            path in "(/{1,2}([a-g]{1,9}|[0-9a-f]{7,9}|[0-9]{1,3}|\\.{1,3}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-g]{11,13}|[!-~]{0,4})){0,3}"
        ) {
            let normal = normalize(&path);
            prop_assert!(is_in(RequestTexts::Paths(Ids::Normal), &normal), "{}", normal);
            if !path.contains('%') {
                prop_assert_eq!(is_in(RequestTexts::Paths(Ids::Normal), &path), normal == path, "{}", path);
            }
        }
    }

    #[test]
    fn the_shortest_text_is_found_or_certainly_absent() {
        let shortest = |regex: &str, texts| RegexSearch::of(regex).expect("an expression").shortest(texts);
        let text = |text: &str| Shortest::Text(text.to_owned());
        assert_eq!(shortest("^/users/[0-9]+", RequestTexts::Paths(Ids::Normal)), text("/users/0a"));
        assert_eq!(shortest("^/users/[0-9]+$", RequestTexts::Paths(Ids::Normal)), Shortest::Absent);
        assert_eq!(shortest("^/users/[0-9]+$", RequestTexts::Paths(Ids::Unknown)), text("/users/0"));
        assert_eq!(shortest("^/users/", RequestTexts::Paths(Ids::Normal)), text("/users/a"));
        assert_eq!(shortest("", RequestTexts::Paths(Ids::Normal)), text("/"));
        assert_eq!(shortest("^/[0-9a-f]{8}$", RequestTexts::Paths(Ids::Normal)), text("/aaaaaaaa"));
        assert_eq!(shortest("^/[0-9a-f]{8}$", RequestTexts::Paths(Ids::Likely)), Shortest::Absent);
        assert_eq!(shortest("p.*t", RequestTexts::Methods), Shortest::Absent);
        assert_eq!(shortest("(?i)put", RequestTexts::Methods), text("PUT"));
        assert_eq!(shortest("^.{5000}$", RequestTexts::Any), Shortest::Unknown);
    }
}
