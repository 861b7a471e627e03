//! The presence set in the store, as far as this agent believes it.
//!
//! Anyone who can write to the store can write members into the set or empty it. Thousands of members that come at once
//! are no fleet that grows, as on the bus: the set then names nobody whom the agent does not know already, and proves
//! nothing. A set that is younger than the removal time may lack live agents, however often it begins anew.
//!
//! The set has a clock of its own, because a step forward of the store's clock would remove live agents and make a new
//! set look old. To begin a new set after each gap was rejected: an agent that restarts alone would not know for 13 s
//! that it is alone.

use std::num::NonZeroU32;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{GONE_AFTER_MS, PresenceSet};
use tollgate_core::newcomers::{Heard, Newcomers};

use crate::report::Notice;

/// Maximum number of agents that may come within seconds, unless a larger fleet is expected.
const NEWCOMERS_LEN_MAX: usize = 1_000;

pub(crate) fn newcomers_len_max(agents_expected: Option<NonZeroU32>) -> usize {
    agents_expected.map_or(0, |agents| 2 * agents.get() as usize).max(NEWCOMERS_LEN_MAX)
}

pub(super) struct BelievedSet {
    newcomers: Newcomers<Arc<str>>,
    len_max: usize,
    /// Number of new members in the last answer, if there were too many.
    refused: Option<usize>,
    /// True if the log tells that there were too many.
    is_told: bool,
    /// True if the set is old enough that a live agent which is missing in it has gone.
    is_complete: bool,
}

impl Default for BelievedSet {
    fn default() -> Self {
        Self::new(NEWCOMERS_LEN_MAX)
    }
}

impl BelievedSet {
    pub(super) fn new(len_max: usize) -> Self {
        let newcomers = Newcomers::new(0, len_max);
        Self { newcomers, len_max, refused: None, is_told: false, is_complete: false }
    }

    /// Judges an answer, in which these members are new. Returns true if they are believed.
    pub(super) fn answered<'a>(
        &mut self,
        now: Timestamp,
        set: &PresenceSet,
        new: impl Iterator<Item = &'a Arc<str>>,
    ) -> bool {
        let (mut len, mut are_too_many) = (0, false);
        for id in new {
            len += 1;
            // All are heard, and none is believed if one is refused.
            are_too_many |= self.newcomers.hear(now, id) == Heard::TooMany;
        }
        self.refused = are_too_many.then_some(len);
        self.is_complete = !are_too_many && set.age_ms >= GONE_AFTER_MS;
        !are_too_many
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns the change that the log has not told yet.
    pub(super) fn take_notice(&mut self) -> Option<Notice> {
        if self.is_told == self.is_refused() {
            return None;
        }
        self.is_told = self.is_refused();
        Some(match self.refused {
            Some(named) => Notice::AgentsRefused { named, len_max: self.len_max },
            None => Notice::AgentsBelieved,
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::messages::presence::INTERVAL_MS;

    use super::super::{Fleet, FleetPart};
    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// Lets an agent announce itself once a second. The set of each second follows from its number. Returns the parts
    /// after each second, and the notices.
    fn run(
        fleet: &Fleet,
        seconds: std::ops::Range<u64>,
        set: impl Fn(u64) -> PresenceSet,
    ) -> (Vec<FleetPart>, Vec<Notice>) {
        let (mut parts, mut notices) = (Vec::new(), Vec::new());
        for second in seconds {
            let now = START.plus_ms(second * INTERVAL_MS);
            fleet.announced(now, Some(&set(second)));
            notices.extend(fleet.tick(now));
            parts.push(fleet.part());
        }
        (parts, notices)
    }

    fn set_of(second: u64, age_ms: u64, ids: &[&str], invented: usize) -> PresenceSet {
        let announced = START.plus_ms(second * INTERVAL_MS);
        let invented = (0..invented).map(|number| format!("fake{number}"));
        let ids = ids.iter().map(|id| (*id).to_owned()).chain(invented);
        let agents = ids.map(|id| (id.as_str().into(), announced)).collect();
        PresenceSet { age_ms, agents, ..PresenceSet::default() }
    }

    const fn one_of(agents: u32) -> FleetPart {
        FleetPart::OneOf(NonZeroU32::new(agents).unwrap())
    }

    /// E7: thousands of members that are written into the set at once change nothing, and one line tells the remedy.
    /// Afterwards agents come and go again.
    #[test]
    fn thousands_of_new_members_in_the_set_are_refused() {
        let fleet = Fleet::new("a".into(), START, None, None);
        let (parts, notices) = run(&fleet, 0..20, |second| set_of(second, 60_000, &["a", "b"], 0));
        assert_eq!((parts.last(), notices.len()), (Some(&one_of(2)), 0));
        let (parts, notices) = run(&fleet, 20..60, |second| set_of(second, 60_000, &["a"], 10_000));
        assert!(parts.iter().all(|part| *part == one_of(2)), "neither more nor fewer: {parts:?}");
        assert_eq!(notices, [Notice::AgentsRefused { named: 10_000, len_max: NEWCOMERS_LEN_MAX }]);
        let (parts, notices) = run(&fleet, 60..64, |second| set_of(second, 60_000, &["a", "c"], 0));
        assert_eq!((parts.last(), notices.as_slice()), (Some(&one_of(2)), [Notice::AgentsBelieved].as_slice()));
    }

    /// R8: a fleet as large as expected is counted, and an agent that starts among more does not believe that it is alone.
    #[test]
    fn a_set_of_thousands_is_believed_only_if_so_many_are_expected() {
        for (expected, part) in [(2_000, one_of(2_001)), (900, FleetPart::Expected(NonZeroU32::new(900).unwrap()))] {
            let fleet = Fleet::new("a".into(), START, NonZeroU32::new(expected), None);
            let (parts, notices) = run(&fleet, 0..20, |second| set_of(second, 60_000, &["a"], 2_000));
            assert_eq!(parts[..2], [FleetPart::Nothing; 2], "{expected}");
            assert_eq!((parts.last(), notices.is_empty()), (Some(&part), expected == 2_000), "{expected}");
        }
    }

    /// I10: a set that is emptied again and again, for longer than the removal time, removes nobody. Once it has been
    /// there for the removal time, an agent that is missing in it has gone.
    #[test]
    fn a_set_that_begins_anew_again_and_again_removes_nobody() {
        let fleet = Fleet::new("a".into(), START, None, None);
        run(&fleet, 0..20, |second| set_of(second, 60_000, &["a", "b", "c"], 0));
        let (parts, _) = run(&fleet, 20..80, |second| set_of(second, second % 13 * 1_000, &["a"], 0));
        assert!(parts.iter().all(|part| *part == one_of(3)), "{parts:?}");
        let (parts, _) = run(&fleet, 80..94, |second| set_of(second, (second - 80) * 1_000, &["a", "b"], 0));
        assert_eq!((parts[12], parts[13]), (one_of(3), one_of(2)));
    }
}
