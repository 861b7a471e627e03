//! Bounds of the admissions under one quota.
//!
//! A store that is away has two bounds: the one of this traffic, and the one that `rules validate` prints for any traffic. The
//! second is computed by the same function that prints it.

use std::time::Duration;

use tollgate::Rule;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::{LimitPolicy, OutageBound};

use super::deployment::RedisDeployment;
use super::faults::{AdmittedBounds, ServerFault};
use super::limiting::Limiting;
use super::settings::FLEET_SIZE;

/// Time from a call to its signal, which bounds what a caller gets from lost counters; generous for a busy machine.
const SIGNAL_LAG: Duration = Duration::from_millis(250);

/// Bounds of the admissions of one quota.
#[derive(Clone, Copy, Debug)]
pub(super) struct QuotaBounds {
    /// Bounds while no breaker opens.
    answered: AdmittedBounds,
    /// Bounds once a breaker has opened, because all answers are late or the machine is busy: signals or `on_failure` decide until
    /// the store answers in time again.
    unanswered: AdmittedBounds,
    /// Bounds that `rules validate` prints for an outage; none if the store answers, or has lost its data.
    pub(super) printed: Option<AdmittedBounds>,
}

impl QuotaBounds {
    /// Returns the bounds in a deployment, of rules by the consistency, whose callers ask for so many units per second. If a replica takes
    /// over, it may lack a quota: the bound of `more_per_fail_over` that `rules validate` prints.
    pub(super) fn of(
        (fault, deployment): (ServerFault, RedisDeployment),
        has_kafka: bool,
        rule: fn(Limiting) -> Rule,
        rate: u32,
    ) -> Self {
        let [strict, bounded] = Limiting::ALL.map(rule);
        let quota = strict.policy.as_ref().map_or(0, LimitPolicy::most_in_window);
        let lost = if fault.fails_over(deployment) { quota } else { 0 };
        let printed = || AdmittedBounds {
            strict: printed(&strict, has_kafka, rate),
            bounded: printed(&bounded, has_kafka, rate),
        };
        let answered = fault.bounds(quota, has_kafka, units_of(rate, SIGNAL_LAG));
        Self {
            answered: answered.plus(lost),
            unanswered: answered.or_outage(quota, has_kafka).plus(lost),
            printed: fault.is_outage().then(|| printed().plus(lost)),
        }
    }

    /// Returns the bounds of admissions in a run with so many openings of breakers.
    pub(super) fn admitted(&self, openings: u64) -> AdmittedBounds {
        if openings == 0 { self.answered } else { self.unanswered }
    }
}

/// Returns the bound of an outage that is printed for a rule of this traffic. By signals, calls pass beside it while the
/// signals of two agents differ.
fn printed(rule: &Rule, has_kafka: bool, rate: u32) -> u64 {
    let policy = rule.policy.as_ref().expect("the rule limits");
    let OutageBound { by_signals, alone } = OutageBound::of(policy, FLEET_SIZE);
    let calls = units_of(rate, Duration::from_millis(FRESH_MS));
    if has_kafka { by_signals.saturating_add(calls) } else { alone.unwrap_or(u64::MAX) }
}

/// Returns the units that so many calls per second ask for in this time.
pub(super) fn units_of(rate: u32, time: Duration) -> u64 {
    u64::try_from(time.as_millis() * u128::from(rate) / 1_000).unwrap_or(u64::MAX)
}
