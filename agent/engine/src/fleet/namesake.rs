//! Another live agent with this agent's name. The fleet counts the two as one, so without the store each admits the
//! part of both.
//!
//! On the bus, it has another start. In the presence set, the name was announced since this agent's own last announcement. A
//! former life of this agent does neither for long: it started earlier, and it announces nothing any more.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{INTERVAL_MS, PresenceSet};

use super::streak::PresenceSource;
use super::streak::Streak;
use crate::report::Notice;

/// Time for which signs of a namesake arrive before it is told, in ms.
const TOLD_AFTER_MS: u64 = 5 * INTERVAL_MS;

/// Signs of another agent with the same name.
#[derive(Default)]
pub(super) struct Namesake {
    signs: [Streak; PresenceSource::LEN],
    /// Time of this agent's last announcement by the clock of the set; nothing if its answer was lost.
    announced: Option<Timestamp>,
    is_told: bool,
}

impl Namesake {
    /// Records a heartbeat of this name that is not of this life and not of an earlier one.
    pub(super) fn heartbeat(&mut self, now: Timestamp) {
        self.signs[PresenceSource::Bus as usize].heard(now);
    }

    pub(super) fn announced(&mut self, now: Timestamp, own: &str, set: Option<&PresenceSet>) {
        let before = set.and_then(|set| set.own_before);
        if before.zip(self.announced).is_some_and(|(before, last)| before > last) {
            self.signs[PresenceSource::Store as usize].heard(now);
        }
        self.announced = set.and_then(|set| set.agents.iter().find(|(id, _)| **id == *own).map(|(_, at)| *at));
    }

    /// Returns the notice of a namesake when it is proved. It is told again only after its signs have ended.
    pub(super) fn notice(&mut self, now: Timestamp) -> Option<Notice> {
        let is_proved = self.signs.iter().any(|signs| signs.lasted_ms(now) >= TOLD_AFTER_MS);
        let is_news = is_proved && !self.is_told;
        self.is_told = self.signs.iter().any(|signs| signs.goes_on(now)) && (self.is_told || is_proved);
        is_news.then_some(Notice::NameShared)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::messages::presence::Presence;

    use super::super::Fleet;
    use super::super::tests::{START, heartbeat};
    use super::*;

    /// I10: another live agent of the same name is told once, whichever source shows it; a former life is none.
    #[test]
    fn a_namesake_is_told_once_until_it_has_gone() {
        let of_start = |epoch| Presence { epoch, ..heartbeat("a") };
        let set = |ms: u64, before: Option<u64>| PresenceSet {
            age_ms: 60_000,
            agents: vec![("a".into(), START.plus_ms(ms))],
            own_before: before.map(|ms| START.plus_ms(ms)),
            ..PresenceSet::default()
        };
        let told = |deliver: &dyn Fn(&Fleet, u64), fleet: &Fleet, seconds: std::ops::Range<u64>| {
            let mut told = Vec::new();
            for ms in seconds.map(|second| 1_000 * second) {
                fleet.presence(START.plus_ms(ms), &heartbeat("a"));
                deliver(fleet, ms);
                told.extend(fleet.tick(START.plus_ms(ms)).into_iter().filter(|notice| *notice == Notice::NameShared));
            }
            told.len()
        };
        let fleet = || Fleet::new("a".into(), START, None, None);
        let bus = |epoch| move |fleet: &Fleet, ms| fleet.presence(START.plus_ms(ms), &of_start(epoch));
        let (older, newer) = (bus(START.as_ms() - 1), bus(START.as_ms() + 1));
        assert_eq!(told(&older, &fleet(), 1..60), 0, "a former life, which the log still holds");
        let known = fleet();
        assert_eq!((told(&newer, &known, 1..5), told(&newer, &known, 5..60)), (0, 1));
        assert_eq!((told(&older, &known, 60..70), told(&newer, &known, 70..90)), (0, 1), "it went and came again");

        let alone = |fleet: &Fleet, ms: u64| fleet.announced(START.plus_ms(ms), Some(&set(ms, ms.checked_sub(1_000))));
        let shared = |fleet: &Fleet, ms: u64| fleet.announced(START.plus_ms(ms), Some(&set(ms, ms.checked_sub(500))));
        // Its own announcement arrived, but not the answer.
        let lossy = |fleet: &Fleet, ms: u64| {
            fleet.announced(START.plus_ms(ms), None);
            shared(fleet, ms);
        };
        assert_eq!((told(&alone, &fleet(), 1..60), told(&lossy, &fleet(), 1..60)), (0, 0));
        assert_eq!(told(&shared, &fleet(), 1..60), 1);
    }
}
