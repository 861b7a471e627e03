//! One run of all jobs: each polls, and calls again when it was denied. A gateway is in front of each agent.

use std::cmp::Reverse;
use std::collections::btree_map::{BTreeMap, Entry};
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;
use tollgate_sim::{AnsweredCall, Faults, SimSettings};

use super::cases::StormCase;
use super::client::{DeniedClient, retry_after_ms};
use super::penalty::CoolDown;
use super::settings::RetryStormSettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS};
use crate::scenario::fleet::{Fleet, rule_per_caller};

/// Caller of all calls: the jobs share its quota.
const ORGANIZATION: &str = "organization";
const SECOND_MS: u64 = 1_000;

#[derive(Clone, Debug, Default)]
pub(super) struct StormOutcome {
    pub(super) calls: u64,
    /// Calls that agents decide: all but those that a gateway denies in a cool-down.
    pub(super) decided: u64,
    pub(super) admitted: u64,
    /// Admissions of the jobs that wait for the time of `Retry-After`.
    pub(super) admitted_waiting: u64,
    /// Requests to the store.
    pub(super) requests: u64,
    /// Units of the fullest true window.
    pub(super) fullest: u64,
    pub(super) seconds: Vec<StormSecond>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StormSecond {
    pub(super) calls: u64,
    pub(super) admitted: u64,
    /// Admissions of the jobs that wait for the time of `Retry-After`.
    pub(super) admitted_waiting: u64,
    pub(super) requests: u64,
    /// Units in the true window at its end.
    pub(super) window: u64,
}

/// The jobs, and the instants of their next calls.
struct Jobs<'a> {
    clients: &'static [DeniedClient],
    settings: &'a RetryStormSettings,
    /// Denials in a row of each job.
    denials: Vec<u32>,
    due: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Jobs that wait for an answer, by agent and arrival. Calls that arrive together are equal, so that their answers may be
    /// exchanged.
    asking: BTreeMap<(usize, Timestamp), VecDeque<usize>>,
    /// Cool-downs by agent and job; none without penalties.
    cool_downs: Option<Vec<Vec<CoolDown>>>,
    rng: Rng,
}

impl StormOutcome {
    /// Lets jobs poll; the job at each place has the client at the same place, cyclically.
    pub(super) fn of(settings: &RetryStormSettings, case: &StormCase, seed: u64) -> Self {
        let quota = Quota::new(settings.quota, MINUTE_MS).expect("a quota in range");
        let faults = Faults { store_ms_max: 1, bus_ms_max: 5, ack_ms_max: 5, ..Faults::default() };
        let sim = SimSettings { seed, faults, ..SimSettings::fleet(BEGIN, settings.agents) };
        let rules = rule_per_caller(&format!("quota: {}/min", settings.quota));
        let (mut fleet, mut oracle) = (Fleet::new(sim, &rules, quota), Oracle::new(quota));
        let (mut outcome, mut jobs) = (Self::default(), Jobs::new(settings, case, seed));
        let mut answers = Vec::new();
        for second in 0..settings.seconds {
            let (mut numbers, requests) = (StormSecond::default(), fleet.requests());
            for ms in 0..SECOND_MS {
                let now = BEGIN.plus_ms(second * SECOND_MS + ms);
                answers.extend(fleet.run_until(now));
                for answered in answers.drain(..) {
                    let is_admitted = answered.is_admitted;
                    if is_admitted {
                        oracle.admit(answered.answered, 1);
                    }
                    let client = jobs.answered(&answered);
                    numbers.admitted += u64::from(is_admitted);
                    numbers.admitted_waiting += u64::from(is_admitted && client == DeniedClient::Waits);
                }
                while let Some(job) = jobs.next_until(now) {
                    if let Some(agent) = jobs.asks(now, job) {
                        answers.extend(fleet.call(now, agent, ORGANIZATION));
                    }
                    numbers.calls += 1;
                }
            }
            oracle.move_to(BEGIN.plus_ms((second + 1) * SECOND_MS));
            (numbers.requests, numbers.window) = (fleet.requests() - requests, oracle.units());
            outcome.seconds.push(numbers);
        }
        let tally = fleet.take();
        (outcome.decided, outcome.admitted, outcome.requests) = (tally.calls, tally.admitted, tally.requests);
        outcome.calls = outcome.seconds.iter().map(|second| second.calls).sum();
        outcome.admitted_waiting = outcome.seconds.iter().map(|second| second.admitted_waiting).sum();
        outcome.fullest = tally.worst_window;
        outcome
    }
}

impl<'a> Jobs<'a> {
    /// Returns jobs that begin within one interval of their polls.
    fn new(settings: &'a RetryStormSettings, case: &StormCase, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let first = |job| Reverse((BEGIN.plus_ms(rng.u64(0..settings.poll_ms)), job));
        let due = (0..settings.jobs).map(first).collect();
        let cool_downs = case.has_penalties.then(|| vec![vec![CoolDown::default(); settings.jobs]; settings.agents]);
        let (denials, asking) = (vec![0; settings.jobs], BTreeMap::new());
        Self { clients: case.clients, settings, denials, due, asking, cool_downs, rng }
    }

    /// Takes a job that calls until an instant.
    fn next_until(&mut self, now: Timestamp) -> Option<usize> {
        let Reverse((at, job)) = *self.due.peek()?;
        if at > now {
            return None;
        }
        self.due.pop();
        Some(job)
    }

    /// Draws the gateway that a job calls. Returns its agent, unless the gateway denies the call.
    fn asks(&mut self, now: Timestamp, job: usize) -> Option<usize> {
        let agent = self.rng.usize(0..self.settings.agents);
        if let Some(told_ms) = self.cool_downs.as_mut().and_then(|gateways| gateways[agent][job].refuses(now)) {
            self.denied(now, job, told_ms);
            return None;
        }
        self.asking.entry((agent, now)).or_default().push_back(job);
        Some(agent)
    }

    /// Sets the next call of a job that was answered. Returns its client.
    fn answered(&mut self, answered: &AnsweredCall<'_>) -> DeniedClient {
        let Entry::Occupied(mut asking) = self.asking.entry((answered.agent, answered.arrived)) else {
            unreachable!("a job has asked")
        };
        let job = asking.get_mut().pop_front().expect("a job has asked");
        if asking.get().is_empty() {
            asking.remove();
        }
        if answered.is_admitted {
            self.denials[job] = 0;
            self.due.push(Reverse((answered.answered.plus_ms(self.settings.poll_ms), job)));
        } else {
            let mut told_ms = retry_after_ms(&answered.decision);
            if let Some(gateways) = &mut self.cool_downs {
                told_ms = gateways[answered.agent][job].denied(answered.answered, told_ms);
            }
            self.denied(answered.answered, job, told_ms);
        }
        self.client(job)
    }

    /// Sets the next call of a job that was denied and told to wait for this time.
    fn denied(&mut self, now: Timestamp, job: usize, told_ms: u64) {
        self.denials[job] += 1;
        let client = self.client(job);
        let wait_ms = client.wait_ms(told_ms, self.denials[job], self.settings.round_trip_ms, &mut self.rng);
        self.due.push(Reverse((now.plus_ms(wait_ms), job)));
    }

    fn client(&self, job: usize) -> DeniedClient {
        self.clients[job % self.clients.len()]
    }
}
