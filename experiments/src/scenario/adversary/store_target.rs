//! An algorithm as the target of attacks, on one store without agents.

use tollgate_core::algorithm::CounterState;
use tollgate_core::rules::LimitPolicy;
use tollgate_sim::figures::ratio;
use tollgate_sim::oracle::Oracle;

use super::attack::{Attack, AttackSpace};
use super::search::AttackOutcome;
use crate::scenario::arrivals::BEGIN;
use crate::scenario::fleet::rule_per_caller;

/// Number of windows in which an attack comes.
const WINDOWS: u64 = 3;
/// Largest number of calls of an attack, in quotas.
const CALLS_QUOTAS: u64 = 10;

/// A rule whose calls are all charged before they are admitted.
#[derive(Clone, Debug)]
pub(super) struct StoreTarget {
    pub(super) name: &'static str,
    pub(super) policy: LimitPolicy,
}

impl StoreTarget {
    /// Returns the algorithms of the product, with this quota per minute.
    pub(super) fn all(quota: u64) -> Vec<Self> {
        let burst = quota + quota / 5;
        let rules = [
            ("interpolated", "leases: off".to_owned()),
            ("conservative", "leases: off, estimate: conservative".to_owned()),
            ("interpolated, burst", format!("burst: {burst}")),
            ("conservative, burst", format!("estimate: conservative, burst: {burst}")),
            ("sliding_log", "algorithm: sliding_log".to_owned()),
            ("fixed_window", "leases: off, algorithm: fixed_window".to_owned()),
            ("token_bucket 1s", "algorithm: token_bucket".to_owned()),
            ("token_bucket 60s", format!("algorithm: token_bucket, burst: {quota}")),
            ("leaky_bucket 1s", "algorithm: leaky_bucket".to_owned()),
            ("leaky_bucket 60s", format!("algorithm: leaky_bucket, burst: {quota}")),
        ];
        let target = |(name, settings): (&'static str, String)| {
            let rules = rule_per_caller(&format!("quota: {quota}/min, {settings}"));
            Self { name, policy: rules.rules[0].policy.expect("the rule has a policy") }
        };
        rules.into_iter().map(target).collect()
    }

    /// Returns the most units of a window, as `tollgate rules validate` prints them.
    pub(super) fn bound(&self) -> u64 {
        self.policy.most_at_worst()
    }

    pub(super) fn space(&self) -> AttackSpace {
        AttackSpace::of(&self.policy, 1, WINDOWS * self.policy.window.width_ms(), CALLS_QUOTAS)
    }

    /// Returns the outcomes of attacks, each on a counter of its own.
    pub(super) fn evaluate(&self, attacks: &[Attack]) -> Vec<AttackOutcome> {
        let outcome = |attack: &Attack| {
            let admitted = self.admitted(attack);
            let units = admitted.iter().map(|(_, units)| *units).max().unwrap_or_default();
            let calls = attack.calls(1).len() as u64;
            let bound = self.bound();
            AttackOutcome { units, bound, of_bound: 100.0 * ratio(units, bound), calls }
        };
        attacks.iter().map(outcome).collect()
    }

    /// Returns the instants of the admissions of an attack, each with the units in the true window then.
    pub(super) fn admitted(&self, attack: &Attack) -> Vec<(u64, u64)> {
        let limit = self.policy.limit();
        let (mut state, mut oracle) = (CounterState::new(&limit), Oracle::new(self.policy.quota));
        let (mut admitted, mut denied_ms) = (Vec::new(), None);
        for (at_ms, _) in attack.calls(1) {
            // After a denial, all calls of the same instant are denied.
            if denied_ms == Some(at_ms) {
                continue;
            }
            let at = BEGIN.plus_ms(at_ms);
            if state.step(&limit, at, 1).admitted {
                oracle.admit(at, 1);
                admitted.push((at_ms, oracle.units()));
            } else {
                denied_ms = Some(at_ms);
            }
        }
        admitted
    }
}
