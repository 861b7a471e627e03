//! The callers that were denied, with the first and the last time, for the list of those that are newly denied.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;

/// Maximum number of callers. Past the cap, half of them are forgotten: those that were denied longest ago.
const CALLERS_LEN_MAX: usize = 50_000;

/// Name of a caller: its rule and its label.
pub(super) type CallerName = (Arc<str>, Arc<str>);

#[derive(Clone, Debug, Default)]
pub(super) struct DeniedCallers(HashMap<CallerName, DeniedFrom, RandomState>);

/// Minutes of the first and of the last denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeniedFrom {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
}

impl DeniedCallers {
    pub(super) fn denied(&mut self, caller: CallerName, at: Timestamp) {
        let denied = self.0.entry(caller).or_insert(DeniedFrom { first: at, last: at });
        (denied.first, denied.last) = (denied.first.min(at), denied.last.max(at));
        if self.0.len() > CALLERS_LEN_MAX {
            let mut last: Vec<Timestamp> = self.0.values().map(|denied| denied.last).collect();
            let (_, middle, _) = last.select_nth_unstable(CALLERS_LEN_MAX / 2);
            let middle = *middle;
            let later = last.iter().filter(|last| **last > middle).count();
            // A flood is denied in one minute, so many have the same time.
            let mut room = (CALLERS_LEN_MAX / 2).saturating_sub(later);
            self.0.retain(|_, denied| {
                let has_room = denied.last == middle && room > 0;
                room -= usize::from(has_room);
                denied.last > middle || has_room
            });
        }
    }

    pub(super) fn get(&self, caller: &CallerName) -> Option<DeniedFrom> {
        self.0.get(caller).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_callers_that_were_denied_longest_ago_are_forgotten() {
        let mut callers = DeniedCallers::default();
        let name = |number: usize| -> CallerName { ("r".into(), number.to_string().into()) };
        for number in 0..=CALLERS_LEN_MAX {
            callers.denied(name(number), Timestamp::from_ms(number as u64));
        }
        assert!(callers.0.len() <= CALLERS_LEN_MAX / 2 && callers.get(&name(0)).is_none());
        callers.denied(name(CALLERS_LEN_MAX), Timestamp::from_ms(7));
        let mut at_once = DeniedCallers::default();
        for number in 0..=CALLERS_LEN_MAX {
            at_once.denied(name(number), Timestamp::from_ms(7));
        }
        assert_eq!(at_once.0.len(), CALLERS_LEN_MAX / 2);
        let expected = DeniedFrom { first: Timestamp::from_ms(7), last: Timestamp::from_ms(CALLERS_LEN_MAX as u64) };
        assert_eq!(callers.get(&name(CALLERS_LEN_MAX)), Some(expected));
    }
}
