//! Settings of an aggregator's part in the budgets of regions, and the engines of one life of its process.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_aggregator_engine::budget::coordinator::Coordinator;
use tollgate_aggregator_engine::budget::region::{RegionBudgets, RegionMember};
use tollgate_core::messages::ledger::Region;

use super::global_rules::GlobalRules;

/// Part of an aggregator in the budgets of regions.
#[derive(Clone, Debug)]
pub struct RegionRoleSettings {
    /// Name of the aggregator, as its presence has it.
    pub id: Arc<str>,
    /// Name of the region.
    pub region: Region,
    /// True if it may coordinate.
    pub coordinates: bool,
    /// Number that no other life of a process has. It changes when the process begins again with another ledger.
    pub life: u64,
    /// Folder for undecodable records of the ledger.
    pub dead_letters: Option<PathBuf>,
}

impl RegionRoleSettings {
    pub(super) const fn writer(&self) -> u64 {
        self.life
    }

    /// Begins another life, for a ledger that was created again. With the numbers of the life before, the new ledger
    /// could have the same number and the same entries. Stores would then refuse its limits as older ones.
    pub(super) const fn begin_again(&mut self) {
        // A step of Knuth's generator for MMIX: all lives of a process differ.
        self.life = self.life.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    }

    /// Creates the engines of one life of this process.
    pub(super) fn engines(&self, rules: &GlobalRules) -> (RegionBudgets, Option<Coordinator>) {
        let writer = self.writer();
        let key_fingerprint = rules.key_fingerprint();
        let budgets = RegionBudgets::new(RegionMember { region: self.region.clone(), writer, key_fingerprint });
        // The coordinator's entries have a writer of their own.
        (budgets, self.coordinates.then(|| Coordinator::new(!writer)))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_aggregator_engine::budget::ledger::Ledger;
    use tollgate_core::counter::DigestKey;
    use tollgate_core::messages::ledger::Terms;

    use super::*;

    /// A process that stays proposes the same terms for a ledger that was created again: stores know it as another one.
    #[test]
    fn a_ledger_that_is_created_again_has_another_number() {
        let (window_ms, term_ms, key_fingerprint) = (10_000, 12_000, 42);
        let floors = vec![("eu".into(), 1)];
        let terms =
            Terms { rule: "rule".into(), generation: 1, quota: 60, window_ms, term_ms, key_fingerprint, floors };
        let rules = GlobalRules::new(&DigestKey::default(), "eu");
        let mut settings =
            RegionRoleSettings { id: "a".into(), region: "eu".into(), coordinates: true, life: 7, dead_letters: None };
        let mut first_of_life = || {
            let mut coordinator = settings.engines(&rules).1.expect("it coordinates");
            let first = coordinator.propose_terms(&terms).expect("the terms are new");
            settings.begin_again();
            let mut ledger = Ledger::default();
            ledger.apply(&first).expect("it is valid");
            (first.id, ledger.number())
        };
        let (before, after) = (first_of_life(), first_of_life());
        assert!(before.0.writer != after.0.writer && before.1 != after.1, "{before:?} {after:?}");
    }
}
