//! Ranks of an agent's rules in the fleet's order of rules, in place of their generations in charges.
//!
//! A store keeps the policy of the newest rules that charged a counter, so that agents with older rules do not change it. The
//! generations of different origins cannot be compared: a time, a version and an offset are numbers of different sizes, and clocks
//! of agents differ. So the store that several agents share gives each set of rules a rank when it is announced
//! (`common/redis/src/lua/fleet_registry.lua`), and a charge carries the rank. Until the rules in force have a rank, charges carry
//! that of the rules before, and at the start 0: they follow a counter that others have charged.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use smallvec::SmallVec;
use tollgate_core::counter::Charge;
use tollgate_core::messages::presence::{AnnouncedRules, RuleRank};
use tollgate_core::rules::Generation;

/// Ranks of an agent's rules. Before the first announcement is expected, charges keep their generations.
#[derive(Debug, Default)]
pub struct RuleRanks {
    is_used: AtomicBool,
    /// Generation in charges under the rules that were announced last.
    order: AtomicU64,
    rank: AtomicU64,
    /// Rules that the store has given a rank last.
    ranked: Mutex<Option<AnnouncedRules>>,
}

impl RuleRanks {
    /// Begins to put ranks in place of generations.
    pub fn begin(&self) {
        self.is_used.store(true, Ordering::Relaxed);
    }

    /// Returns these rules as they are announced: with their rank, if the store has given one.
    #[must_use]
    pub fn announced(&self, rules: AnnouncedRules) -> AnnouncedRules {
        self.order.store(rules.order, Ordering::Relaxed);
        let ranked = *self.ranked.lock();
        let same =
            |ranked: &AnnouncedRules| (ranked.numbering, ranked.generation) == (rules.numbering, rules.generation);
        let rank = ranked.filter(same).map_or(rules.rank, |ranked| ranked.rank);
        AnnouncedRules { rank, ..rules }
    }

    /// Records the rank that the store has given these rules.
    pub fn ranked(&self, rules: AnnouncedRules, rank: RuleRank) {
        *self.ranked.lock() = Some(AnnouncedRules { rank, ..rules });
        self.rank.store(rank, Ordering::Relaxed);
    }

    /// Returns charges with ranks in place of their generations; nothing if they keep these. Charges of rules before those in
    /// force follow their counters.
    #[must_use]
    pub fn with_ranks(&self, charges: &[Charge]) -> Option<SmallVec<[Charge; 2]>> {
        if !self.is_used.load(Ordering::Relaxed) {
            return None;
        }
        let (current, rank) = (self.order.load(Ordering::Relaxed), self.rank.load(Ordering::Relaxed));
        let rank_of = |generation: Generation| if generation == current { rank } else { 0 };
        Some(charges.iter().map(|charge| Charge { generation: rank_of(charge.generation), ..charge.clone() }).collect())
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::algorithm::{Algorithm, Limit};
    use tollgate_core::clock::Timestamp;
    use tollgate_core::counter::CounterId;
    use tollgate_core::rules::Numbering;
    use tollgate_core::window::Window;

    use super::*;

    /// F9: the rank of charges, from the start of an agent to its third set of rules.
    #[test]
    fn charges_carry_the_rank_of_the_rules_in_force_and_older_ones_follow() {
        let ranks = RuleRanks::default();
        let window = Window::with_default_sub_windows(60_000).expect("a window");
        let limit = Limit { algorithm: Algorithm::FixedWindow, window, units: 9, burst: 0 };
        let charge = |generation| Charge::enforce(CounterId::from_u128(1), limit, generation, 1, Timestamp::default());
        let sent = |ranks: &RuleRanks| {
            let charges = [5, 6, 7].map(charge);
            let charges = ranks.with_ranks(&charges).unwrap_or_else(|| charges.into_iter().collect());
            charges.iter().map(|charge| charge.generation).collect::<Vec<_>>()
        };
        let rules =
            |generation| AnnouncedRules { numbering: Numbering::Version, generation, order: generation, rank: 0 };
        assert_eq!(sent(&ranks), [5, 6, 7], "a store of one agent");
        ranks.begin();
        assert_eq!(sent(&ranks), [0, 0, 0], "before the first announcement");
        assert_eq!(ranks.announced(rules(6)), rules(6));
        assert_eq!(sent(&ranks), [0, 0, 0], "before its answer");
        ranks.ranked(rules(6), 40);
        assert_eq!(sent(&ranks), [0, 40, 0]);
        assert_eq!(ranks.announced(rules(6)).rank, 40, "a rank is kept");
        assert_eq!(ranks.announced(rules(5)).rank, 0, "other rules have none yet");
        assert_eq!(sent(&ranks), [40, 0, 0], "the rank of the rules before");
        ranks.ranked(rules(5), 41);
        assert_eq!(sent(&ranks), [41, 0, 0]);
    }
}
