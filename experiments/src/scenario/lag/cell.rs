//! One fleet of the experiment under one delay, and its numbers by the demand of the callers.

use tollgate::RuleSet;
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, Quota, Rule};
use tollgate_core::window::Estimate;
use tollgate_sim::{Faults, SimSettings, StoreState};

use super::callers::{LagCall, LagDemand};
use super::settings::LagSettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS};
use crate::scenario::fleet::{CALLER, Fleet, FleetTally};

/// A way of deciding: the consistency of the rule, with the store and after its loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decider {
    Strict,
    Bounded,
    /// Asks no store, so its loss changes nothing.
    Eventual,
    StrictLost,
    BoundedLost,
}

/// A fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LagCell {
    pub(super) agents: usize,
    pub(super) delay_s: f64,
    pub(super) decider: Decider,
}

/// Numbers of a fleet, in the order of [`LagDemand::ALL`].
pub(super) type LagTallies = [FleetTally; LagDemand::ALL.len()];

impl Decider {
    pub(super) const ALL: [Self; 5] =
        [Self::Strict, Self::Bounded, Self::Eventual, Self::StrictLost, Self::BoundedLost];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Bounded => "bounded",
            Self::Eventual => "eventual",
            Self::StrictLost => "strict, lost",
            Self::BoundedLost => "bounded, lost",
        }
    }

    pub(super) fn loses_store(self) -> bool {
        matches!(self, Self::StrictLost | Self::BoundedLost)
    }

    fn consistency(self) -> Consistency {
        match self {
            Self::Strict | Self::StrictLost => Consistency::Strict,
            Self::Bounded | Self::BoundedLost => Consistency::Bounded,
            Self::Eventual => Consistency::Eventual,
        }
    }
}

impl LagCell {
    pub(super) fn run(&self, settings: &LagSettings, seed: u64, calls: &[LagCall]) -> LagTallies {
        let quota = Quota::new(settings.quota, MINUTE_MS).expect("a quota in range");
        // The error of the interpolated estimate would hide the effect of the delay.
        let rule = Rule::per("key", &[CALLER], quota).with(|policy| policy.set_consistency(self.decider.consistency()));
        let rules = RuleSet::new(1, [rule.counted_by(Algorithm::SlidingWindow(Estimate::Conservative))]);
        let mut fleet = Fleet::new(self.sim_settings(seed), &rules, quota);
        let lost_at = BEGIN.plus_ms(settings.lost_after_s * 1_000);
        let (before, after) = calls.split_at(calls.partition_point(|call| call.at < lost_at));
        for call in before {
            fleet.call(call.at, call.agent(self.agents), &call.caller);
        }
        fleet.run_until(lost_at);
        // Only later calls are measured.
        fleet.take();
        if self.decider.loses_store() {
            fleet.sim.set_store(StoreState::Unreachable);
        }
        for call in after {
            fleet.call(call.at, call.agent(self.agents), &call.caller);
        }
        let callers = fleet.take_callers();
        LagDemand::ALL.map(|demand| {
            let mut tally = FleetTally::default();
            callers.iter().filter(|(caller, _)| demand.is_of(caller)).for_each(|(_, caller)| tally.add(caller));
            tally
        })
    }

    /// A record reaches the log after half of the delay: the calls on their way to the aggregator, and the signals on their way
    /// back. Presence is as late, as all records of a producer are.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a delay in range")]
    fn sim_settings(&self, seed: u64) -> SimSettings {
        let bus_late_ms = (self.delay_s * 500.0) as u64;
        let faults = Faults { store_ms_max: 1, bus_ms_max: 5, bus_late_ms, ack_ms_max: 5, ..Faults::default() };
        SimSettings { seed, faults, ..SimSettings::fleet(BEGIN, self.agents) }
    }
}
