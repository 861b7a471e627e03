//! Newcomers: members of the fleet that were heard for a moment only, by agents and by aggregators.
//!
//! One record may be forged or misdirected, so a member counts from a later heartbeat on. Thousands of newcomers at once are
//! no fleet that grows: all of them are refused, until fewer come.

use std::collections::HashMap;
use std::hash::Hash;

use crate::clock::Timestamp;

/// Time after which a newcomer that was not heard again is forgotten, in ms.
const FORGET_AFTER_MS: u64 = 5_000;
/// Time for which all newcomers are refused after too many have come, in ms.
const REFUSE_MS: u64 = 1_000;

/// Members that do not count yet.
#[derive(Clone, Debug)]
pub struct Newcomers<M> {
    /// Minimum time from the first heartbeat to the one at which a member counts, in ms.
    heard_ms_min: u64,
    len_max: usize,
    first_heard: HashMap<M, Timestamp>,
    refused_until: Timestamp,
}

/// Result of the heartbeat of a member that did not count before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It counts from now on.
    Member,
    /// It counts if it is heard again later.
    Newcomer,
    /// It is one of too many newcomers, and changes nothing.
    TooMany,
}

impl<M: Clone + Eq + Hash> Newcomers<M> {
    /// Returns an empty set of at most `len_max` newcomers.
    #[must_use]
    pub fn new(heard_ms_min: u64, len_max: usize) -> Self {
        Self { heard_ms_min, len_max, first_heard: HashMap::new(), refused_until: Timestamp::default() }
    }

    /// Applies a heartbeat that the bus appended at this time.
    pub fn hear(&mut self, appended: Timestamp, member: &M) -> Heard {
        if appended < self.refused_until {
            return Heard::TooMany;
        }
        if let Some(first) = self.first_heard.get(member) {
            if appended.ms_since(*first) < self.heard_ms_min {
                return Heard::Newcomer;
            }
            self.first_heard.remove(member);
            return Heard::Member;
        }
        self.first_heard.retain(|_, first| appended.ms_since(*first) <= FORGET_AFTER_MS);
        if self.first_heard.len() >= self.len_max {
            self.first_heard = HashMap::new();
            self.refused_until = appended.plus_ms(REFUSE_MS);
            return Heard::TooMany;
        }
        self.first_heard.insert(member.clone(), appended);
        Heard::Newcomer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(1_000_000 + ms)
    }

    #[test]
    fn a_member_counts_once_it_was_heard_for_some_time() {
        let mut newcomers = Newcomers::new(500, 10);
        let cases = [
            (0, "a", Heard::Newcomer),
            (1, "a", Heard::Newcomer),
            (499, "a", Heard::Newcomer),
            (500, "a", Heard::Member),
            (600, "once", Heard::Newcomer),
            (5_601, "b", Heard::Newcomer),
            (5_700, "once", Heard::Newcomer),
            (6_101, "b", Heard::Member),
        ];
        for (ms, member, heard) in cases {
            assert_eq!(newcomers.hear(at(ms), &member), heard, "{member} at {ms}");
        }
    }

    #[test]
    fn a_flood_adds_no_member_however_often_it_is_repeated() {
        let mut newcomers = Newcomers::new(500, 100);
        for second in 0..20 {
            for member in 0..1_000_u64 {
                assert_ne!(
                    newcomers.hear(at(second * 1_000 + member / 2), &member),
                    Heard::Member,
                    "{second} {member}"
                );
            }
        }
        for ms in [21_000, 22_000, 23_000] {
            let _ = newcomers.hear(at(ms), &7);
        }
        assert_eq!(newcomers.hear(at(24_000), &8), Heard::Newcomer, "afterwards others may come again");
        assert_eq!(newcomers.hear(at(25_000), &8), Heard::Member);
    }
}
