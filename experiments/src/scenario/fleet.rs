//! A simulated fleet under load: calls of named callers arrive at its agents, and an exact list of each caller's admissions judges
//! the answers.
//!
//! The agents, the aggregator and their messages are those of production. A call counts at the instant of its answer.

use std::collections::BTreeMap;

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;
use tollgate_sim::{AnsweredCall, Observation, SimSettings, Simulation};

use super::arrivals::BEGIN;

/// Name of the descriptor that names the caller.
pub(super) const CALLER: &str = "api_key";
/// Time after which all agents of a fleet know each other, in ms.
const KNOWN_MS: u64 = 3_500;
/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 100;

/// A simulated fleet and the exact count of its admissions. It is used from [`BEGIN`] on, when all agents know each other.
pub(super) struct Fleet {
    /// The simulation, for faults.
    pub(super) sim: Simulation<'static>,
    quota: Quota,
    callers: BTreeMap<String, (Oracle, FleetTally)>,
    requests: u64,
    unanswered: UnansweredRequests,
}

/// Requests of agents that the store may never have executed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnansweredRequests {
    /// Requests for calls that are over, answered or not.
    pub(super) of_calls: u64,
    /// Requests of probes that were sent.
    pub(super) probes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FleetTally {
    pub(super) calls: u64,
    pub(super) admitted: u64,
    /// Admissions past the quota of the true last window.
    pub(super) over_admitted: u64,
    /// Denials although the true last window had room.
    pub(super) under_admitted: u64,
    /// Units of the fullest true window of a caller.
    pub(super) worst_window: u64,
    /// Answers of an agent on its own.
    pub(super) local: u64,
    pub(super) by_signals: u64,
    /// Requests to the store.
    pub(super) requests: u64,
    /// Longest time between a call and its answer, in ms.
    pub(super) longest_ms: u64,
}

pub(super) fn rule_per_caller(settings: &str) -> RuleSet {
    rules_per_caller(&[settings])
}

/// Returns rules that all apply to each call, of these settings.
pub(super) fn rules_per_caller(settings: &[impl std::fmt::Display]) -> RuleSet {
    let rule = |(number, settings)| format!("- {{ name: caller-{number}, per: [{CALLER}], {settings} }}\n");
    let rules: String = (1..).zip(settings).map(rule).collect();
    let text = format!("version: 1\nrules:\n{rules}");
    tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("the rules of an experiment are valid")
}

impl Fleet {
    /// Starts a fleet under rules whose quota for each caller is `quota`. The start of `settings` is replaced, so that the agents
    /// know each other at [`BEGIN`], however late their records are.
    pub(super) fn new(settings: SimSettings, rules: &RuleSet, quota: Quota) -> Self {
        let start = BEGIN.minus_ms(KNOWN_MS + 2 * settings.faults.bus_late_ms);
        let mut sim = Simulation::new(SimSettings { start, ..settings }, rules);
        sim.run_until(BEGIN);
        sim.observations();
        Self { sim, quota, callers: BTreeMap::new(), requests: 0, unanswered: UnansweredRequests::default() }
    }

    /// Returns the answers since the last call or move. Instants must ascend.
    pub(super) fn call(&mut self, at: Timestamp, agent: usize, caller: &str) -> Vec<AnsweredCall<'static>> {
        let answers = self.run_until(at);
        self.sim.check(agent, vec![Call::new().with(CALLER, caller.to_owned())]);
        answers
    }

    /// Does all that happens until an instant, and returns the answers.
    pub(super) fn run_until(&mut self, until: Timestamp) -> Vec<AnsweredCall<'static>> {
        self.sim.run_until(until.max(self.sim.now()));
        let observations: Vec<_> = self.sim.observations().collect();
        let mut answers = Vec::new();
        for observation in observations {
            match observation {
                Observation::Executed { is_part, .. } => self.requests += u64::from(!is_part),
                Observation::Finished { is_backfill: false, .. } => self.unanswered.of_calls += 1,
                Observation::ProbeSent { .. } => self.unanswered.probes += 1,
                Observation::Answered(answered) => {
                    self.judge(&answered);
                    answers.push(answered);
                }
                _ => {}
            }
        }
        answers
    }

    /// Returns the requests of agents up to now, answered or not.
    pub(super) fn unanswered(&self) -> UnansweredRequests {
        self.unanswered
    }

    /// Returns the requests to the store since the numbers were taken.
    pub(super) fn requests(&self) -> u64 {
        self.requests
    }

    /// Returns the units of the caller with the most units in the last window.
    pub(super) fn fullest(&mut self) -> u64 {
        let now = self.sim.now();
        let units = |(oracle, _): &mut (Oracle, FleetTally)| {
            oracle.move_to(now);
            oracle.units()
        };
        self.callers.values_mut().map(units).max().unwrap_or_default()
    }

    /// Waits until all calls are answered, and returns the numbers of all callers since the last time.
    pub(super) fn take(&mut self) -> FleetTally {
        let callers = self.take_callers();
        let mut tally = FleetTally { requests: std::mem::take(&mut self.requests), ..FleetTally::default() };
        for caller in callers.values() {
            tally.add(caller);
        }
        tally
    }

    /// Waits until all calls are answered, and returns the numbers of each caller since the last time, without the requests.
    pub(super) fn take_callers(&mut self) -> BTreeMap<String, FleetTally> {
        self.run_until(self.sim.now().plus_ms(ANSWERED_MS));
        let taken = |(name, (_, tally)): (&String, &mut (Oracle, FleetTally))| (name.clone(), std::mem::take(tally));
        self.callers.iter_mut().map(taken).collect()
    }

    fn judge(&mut self, answered: &AnsweredCall<'_>) {
        let caller = answered.call.get(CALLER).unwrap_or_default();
        if !self.callers.contains_key(caller) {
            self.callers.insert(caller.to_owned(), (Oracle::new(self.quota), FleetTally::default()));
        }
        let (oracle, tally) = self.callers.get_mut(caller).expect("it was entered");
        let (at, cost) = (answered.answered, answered.call.cost());
        tally.calls += 1;
        tally.local += u64::from(answered.decision.source == Source::Local);
        tally.by_signals += u64::from(answered.decision.source == Source::Signal);
        tally.longest_ms = tally.longest_ms.max(at.ms_since(answered.arrived));
        if answered.is_admitted {
            tally.admitted += 1;
            tally.over_admitted += u64::from(oracle.admit(at, cost));
            tally.worst_window = tally.worst_window.max(oracle.units());
        } else {
            tally.under_admitted += u64::from(oracle.has_room(at, cost));
        }
    }
}

impl FleetTally {
    pub(super) fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.admitted += other.admitted;
        self.over_admitted += other.over_admitted;
        self.under_admitted += other.under_admitted;
        self.worst_window = self.worst_window.max(other.worst_window);
        self.local += other.local;
        self.by_signals += other.by_signals;
        self.requests += other.requests;
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_agents_admit_the_quota_between_them() {
        let rules = rule_per_caller("quota: 10/min, consistency: strict, leases: off");
        let mut fleet = Fleet::new(SimSettings::fleet(BEGIN, 2), &rules, Quota::new(10, 60_000).expect("a quota"));
        for (call, agent) in (0..40).zip([0, 1].into_iter().cycle()) {
            fleet.call(BEGIN.plus_ms(call * 10), agent, "a");
        }
        fleet.run_until(BEGIN.plus_ms(1_000));
        assert_eq!(fleet.fullest(), 10);
        let tally = fleet.take();
        assert_eq!((tally.calls, tally.admitted, tally.worst_window), (40, 10, 10), "{tally:?}");
        assert_eq!((tally.over_admitted, tally.under_admitted), (0, 0), "{tally:?}");
        fleet.run_until(BEGIN.plus_ms(61_000));
        assert_eq!((fleet.fullest(), fleet.take_callers()["a"].calls), (0, 0));
    }
}
