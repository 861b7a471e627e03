//! Targets of attacks: the algorithms on one store, and the consistencies in a fleet; and the worst attack on each.

use tollgate_sim::figures::ratio;

use super::fleet_target::{FleetTarget, PrintedBound};
use super::search::{SearchSize, WorstAttack};
use super::settings::AdversarySettings;
use super::store_target::StoreTarget;

#[expect(clippy::large_enum_variant, reason = "there are few targets")]
pub(super) enum AttackTarget {
    Store(StoreTarget),
    Fleet(FleetTarget),
}

/// A target, and the worst attack on it.
pub(super) struct TargetResult {
    pub(super) name: &'static str,
    pub(super) is_of_fleet: bool,
    pub(super) quota: u64,
    pub(super) bound: PrintedBound,
    pub(super) worst: WorstAttack,
}

impl AttackTarget {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Store(target) => target.name,
            Self::Fleet(target) => target.name,
        }
    }

    pub(super) fn search(&self, settings: &AdversarySettings, seed: u64) -> WorstAttack {
        let size = |generations, attacks| SearchSize { restarts: settings.restarts, generations, attacks };
        match self {
            Self::Store(target) => {
                let size = size(settings.store_generations, settings.store_attacks);
                WorstAttack::search(&target.space(), &[], size, seed, |attacks, _| target.evaluate(attacks))
            }
            Self::Fleet(target) => {
                let size = size(settings.fleet_generations, settings.fleet_attacks);
                WorstAttack::search(&target.space(), &target.known(), size, seed, |attacks, seed| {
                    target.evaluate(attacks, seed)
                })
            }
        }
    }

    pub(super) fn result(&self, quota: u64, worst: WorstAttack) -> TargetResult {
        let (is_of_fleet, bound) = match self {
            Self::Store(target) => (false, PrintedBound { units: target.bound(), times_calls: 0 }),
            Self::Fleet(target) => (true, target.bound()),
        };
        TargetResult { name: self.name(), is_of_fleet, quota, bound, worst }
    }
}

impl TargetResult {
    pub(super) fn found_percent(&self) -> f64 {
        100.0 * ratio(self.worst.outcome.units, self.quota)
    }

    /// Returns the bound without the calls of the time in which signals may differ.
    pub(super) fn bound_percent(&self) -> f64 {
        100.0 * ratio(self.bound.units, self.quota)
    }

    /// Returns the bound of the fullest window, with these calls.
    pub(super) fn bound_of_found_percent(&self) -> f64 {
        100.0 * ratio(self.worst.outcome.bound, self.quota)
    }
}
