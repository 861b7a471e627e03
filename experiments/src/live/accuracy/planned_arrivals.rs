//! The calls of a run: their instants, agents and callers, drawn once for the simulation and the real servers.

use fastrand::Rng;
use tollgate::{Call, RuleSet};

use super::plan::{AccuracyPlan, CONSISTENCIES, QUOTA, TENANT_QUOTA, WIDTH_MS};

/// Demands of callers, in quotas.
const LOADS: [f64; 4] = [0.5, 0.9, 2.0, 10.0];
/// Number of callers of each consistency and demand.
const CALLERS: usize = 5;

/// Time that is not measured: callers begin, and their windows fill, in ms.
const UNMEASURED_MS: u64 = 2 * WIDTH_MS;

/// All calls, in order of time.
pub(super) struct PlannedArrivals {
    pub(super) all: Vec<PlannedArrival>,
    pub(super) callers: usize,
    pub(super) measured_from_ms: u64,
    /// True if each call counts under a rule of its tenant, too.
    pub(super) has_tenant: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlannedArrival {
    /// Time since the beginning, in ms.
    pub(super) at_ms: f64,
    /// Number of the caller among all; the callers of a consistency follow each other.
    pub(super) caller: usize,
    pub(super) agent: usize,
}

impl PlannedArrivals {
    /// Draws the calls: a Poisson process of each caller, whose calls go to any agent. Callers begin within a window, so that their
    /// windows do not fill at the same time.
    #[expect(clippy::cast_precision_loss, reason = "a small number")]
    pub(super) fn new(plan: AccuracyPlan) -> Self {
        let end_ms = (UNMEASURED_MS + u64::from(plan.seconds) * 1_000) as f64;
        let (mut rng, agents) = (Rng::with_seed(1), plan.agents.get() as usize);
        let callers = CONSISTENCIES.len() * LOADS.len() * CALLERS;
        let mut all = Vec::new();
        for caller in 0..callers {
            let per_ms = LOADS[caller % LOADS.len()] * QUOTA as f64 / WIDTH_MS as f64;
            let mut at_ms = rng.f64() * WIDTH_MS as f64;
            loop {
                at_ms -= (1.0 - rng.f64()).ln() / per_ms;
                if at_ms >= end_ms {
                    break;
                }
                all.push(PlannedArrival { at_ms, caller, agent: rng.usize(0..agents) });
            }
        }
        all.sort_by(|a, b| a.at_ms.total_cmp(&b.at_ms));
        Self { all, callers, measured_from_ms: UNMEASURED_MS, has_tenant: plan.has_tenant }
    }
}

/// Returns the rules: one for each consistency, by a descriptor of its name, and one for its tenant.
pub(super) fn rules(has_tenant: bool) -> RuleSet {
    let rule = |name: &str, quota, consistency| {
        format!(
            "{{ name: {name}, per: [{name}], quota: {quota}/{}s, estimate: conservative, consistency: {consistency} }}",
            WIDTH_MS / 1_000
        )
    };
    let mut rules = CONSISTENCIES.map(|consistency| rule(consistency, QUOTA, consistency)).to_vec();
    if has_tenant {
        rules.extend(CONSISTENCIES.map(|consistency| rule(&tenant_of(consistency), TENANT_QUOTA, consistency)));
    }
    let text = format!("version: 1\nrules: [{}]", rules.join(", "));
    tollgate_rules::from_yaml("accuracy", &text, 1).expect("valid rules")
}

/// Returns the name of the rule of a consistency's tenant, and of its descriptor.
fn tenant_of(consistency: &str) -> String {
    format!("{consistency}_tenant")
}

/// Returns the place of a caller's consistency in [`CONSISTENCIES`].
pub(super) fn consistency_of(caller: usize) -> usize {
    caller / (LOADS.len() * CALLERS)
}

pub(super) fn call_of(caller: usize, has_tenant: bool) -> Call<'static> {
    let consistency = CONSISTENCIES[consistency_of(caller)];
    let call = Call::new().with(consistency, format!("caller-{caller}"));
    if has_tenant { call.with(tenant_of(consistency), "tenant") } else { call }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn calls_are_in_order_and_of_all_agents_and_consistencies() {
        let plan = AccuracyPlan { agents: NonZeroU32::new(3).unwrap(), seconds: 20, has_tenant: true };
        let calls = PlannedArrivals::new(plan);
        assert!(calls.all.is_sorted_by(|a, b| a.at_ms <= b.at_ms));
        for number in 0..3 {
            assert!(calls.all.iter().any(|call| call.agent == number));
            assert!(calls.all.iter().any(|call| consistency_of(call.caller) == number));
        }
        // The mean demand is 3.35 quotas of ten calls per second, of 60 callers for 35 s on average.
        assert!((68_000..72_700).contains(&calls.all.len()), "{}", calls.all.len());
        assert_eq!(calls.all, PlannedArrivals::new(plan).all);
        for (has_tenant, rules_of_call) in [(false, 1), (true, 2)] {
            let (rules, call) = (rules(has_tenant), call_of(0, has_tenant));
            assert_eq!(rules.applicable(&rules.resolved(&call)).len(), rules_of_call);
        }
    }
}
