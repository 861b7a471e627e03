//! The ways of the product: its agents, its store, its aggregator and their messages, in the simulated fleet.

use tollgate::RuleSet;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::{AnsweredCall, Faults, SimSettings, StoreState};

use super::network::{CounterBytes, HEADER_BYTES, REQUEST_BYTES, Traffic, Trial, TrialResult, WayAnswer};
use super::settings::MeasuredBytes;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS};
use crate::scenario::fleet::{CALLER, Fleet};

/// Time in which the messages of a fleet without calls are counted.
const IDLE_MS: u64 = 5_000;
/// Time after which all agents know that the store is lost.
const NOTICED_MS: u64 = 5_000;

const MINUTES_OF_DAY: u64 = 24 * 60;
/// Size of the fleet from which on the shells work as soon as those of production: otherwise, the records of so many agents come faster
/// than the simulated aggregator takes them.
const PROMPT_NODES_MIN: usize = 500;

#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table")]
pub(super) struct ProductionWay {
    pub(super) name: &'static str,
    pub(super) coordination: &'static str,
    /// Settings of the rule, beside its quota.
    settings: &'static str,
    pub(super) has_bus: bool,
    pub(super) loses_store: bool,
    pub(super) is_far: bool,
    /// True if a quota of a day, which is never reached, counts as well.
    has_day: bool,
}

const STRICT: &str = "consistency: strict, estimate: conservative";
const BOUNDED: &str = "consistency: bounded, estimate: conservative";

/// All ways of the product, in the order of the table.
pub(super) const PRODUCTION_WAYS: [ProductionWay; 9] = [
    ProductionWay::new("Kafka only (eventual)", "N", "consistency: eventual, estimate: conservative", true),
    ProductionWay::new("store only (strict)", "1", "consistency: strict, estimate: conservative, leases: off", false),
    ProductionWay::new("store, leases (strict)", "1", STRICT, false),
    ProductionWay::new("far store: leases", "1", STRICT, false).far(),
    ProductionWay::new("store, signals", "N", BOUNDED, true),
    ProductionWay::new("default rule", "N", "consistency: bounded", true),
    ProductionWay::new("default, two rules", "N", "consistency: bounded", true).beside_day(),
    ProductionWay::new("store lost: leases", "1", STRICT, false).losing_store(),
    ProductionWay::new("store lost: signals", "N", BOUNDED, true).losing_store(),
];

impl ProductionWay {
    const fn new(name: &'static str, coordination: &'static str, settings: &'static str, has_bus: bool) -> Self {
        Self { name, coordination, settings, has_bus, loses_store: false, is_far: false, has_day: false }
    }

    const fn far(self) -> Self {
        Self { is_far: true, ..self }
    }

    const fn beside_day(self) -> Self {
        Self { has_day: true, ..self }
    }

    const fn losing_store(self) -> Self {
        Self { loses_store: true, ..self }
    }

    /// A store that is lost is lost at the incident, and the traffic is that from then on.
    pub(super) fn run(&self, trial: &Trial, measured: MeasuredBytes) -> TrialResult {
        let (outcome, bus) = self.run_calls(trial);
        let (calls, bus) = (outcome.traffic, self.bus_traffic(trial, &bus));
        let traffic = Traffic {
            store_requests: calls.store_requests,
            timer_requests: calls.timer_requests,
            call_bytes: bus.call_bytes + calls.call_bytes,
            timer_bytes: bus.timer_bytes + calls.timer_bytes,
            ..bus
        };
        TrialResult { traffic, bytes: self.counter_bytes(measured), ..outcome }
    }

    /// The traffic is that of the store; beside it is what the bus has carried.
    fn run_calls(&self, trial: &Trial) -> (TrialResult, BusRecords) {
        let mut fleet = self.fleet(trial);
        let mut answers = Vec::with_capacity(trial.calls.len());
        let mut enter = |answered: &[AnsweredCall<'_>]| answers.extend(answered.iter().map(way_answer));
        let mut lost = None;
        for call in &trial.calls {
            if self.loses_store && lost.is_none() && call.at >= trial.incident {
                enter(&fleet.run_until(trial.incident));
                fleet.sim.set_store(StoreState::Refusing);
                lost = Some((fleet.unanswered(), records(&fleet, trial.nodes)));
            }
            enter(&fleet.call(call.at, call.node, &call.caller.to_string()));
        }
        enter(&fleet.run_until(trial.end));
        let (since, before) = lost.map_or((BEGIN, None), |(_, before)| (trial.incident, Some(before)));
        // A store that is lost executes nothing, so the requests without an answer are counted then.
        let (store_requests, probes) = match lost {
            Some((before, _)) => {
                let unanswered = fleet.unanswered();
                (unanswered.of_calls - before.of_calls, unanswered.probes - before.probes)
            }
            None => (fleet.take().requests, 0),
        };
        let traffic = Traffic {
            store_requests,
            timer_requests: probes,
            call_bytes: store_requests * REQUEST_BYTES,
            timer_bytes: probes * REQUEST_BYTES,
            ..Traffic::default()
        };
        let outcome = TrialResult { answers, traffic, bytes: CounterBytes::default() };
        (outcome, BusRecords { since, before, end: records(&fleet, trial.nodes) })
    }

    /// Runs the calls of probes that begin when all agents know that the store is lost, if it is lost.
    pub(super) fn run_probes(&self, trial: &Trial) -> TrialResult {
        let later = |at: Timestamp| if self.loses_store { at.plus_ms(NOTICED_MS) } else { at };
        let mut probes = trial.clone();
        probes.calls.iter_mut().for_each(|call| call.at = later(call.at));
        (probes.end, probes.incident) = (later(trial.end), BEGIN);
        let (mut outcome, _) = self.run_calls(&probes);
        for answer in &mut outcome.answers {
            answer.call.at = answer.call.at.minus_ms(later(BEGIN).ms_since(BEGIN));
        }
        outcome
    }

    /// Returns the memory of a counter, as it was measured with a real agent and a real store.
    fn counter_bytes(&self, measured: MeasuredBytes) -> CounterBytes {
        if self.is_of_signals_alone() {
            return CounterBytes { node: measured.node_without_store, store: 0 };
        }
        CounterBytes { node: measured.node_beside_store, store: measured.store }
    }

    /// Returns true if the store holds no counter, because signals decide.
    fn is_of_signals_alone(&self) -> bool {
        self.settings.contains("eventual")
    }

    fn fleet(&self, trial: &Trial) -> Fleet {
        let (quota, settings) = (trial.quota.units(), self.settings);
        let rule =
            |name: &str, quota: String| format!("{{ name: {name}, per: [{CALLER}], quota: {quota}, {settings} }}");
        let minute = rule("key", format!("{quota}/min"));
        let day = self.has_day.then(|| rule("day", format!("{}/d", quota * MINUTES_OF_DAY)));
        let rules: Vec<_> = [minute].into_iter().chain(day).collect();
        let rules = format!("version: 1\nrules: [{}]", rules.join(", "));
        let rules: RuleSet = tollgate_rules::from_yaml("rules.yaml", &rules, 1).expect("rules in range");
        let delays = trial.delays;
        let faults =
            Faults { store_ms_max: delays.store, bus_ms_max: delays.bus, ack_ms_max: delays.bus, ..Faults::default() };
        let is_prompt = trial.nodes >= PROMPT_NODES_MIN;
        let settings = SimSettings { seed: trial.seed, faults, is_prompt, ..SimSettings::fleet(BEGIN, trial.nodes) };
        let aggregators = usize::from(self.has_bus);
        let quota = Quota::new(quota, MINUTE_MS).expect("a quota in range");
        Fleet::new(SimSettings { has_bus: self.has_bus, aggregators, ..settings }, &rules, quota)
    }

    /// Returns the messages of the bus. What a fleet without calls sends as well is counted as messages of timers.
    fn bus_traffic(&self, trial: &Trial, sent: &BusRecords) -> Traffic {
        if !self.has_bus {
            return Traffic::default();
        }
        let mut idle = self.fleet(trial);
        let at_begin = records(&idle, trial.nodes);
        idle.run_until(BEGIN.plus_ms(IDLE_MS));
        let idle = records(&idle, trial.nodes);
        let before = sent.before.unwrap_or(at_begin);
        let scaled = |index: usize| (idle[index] - at_begin[index]) * trial.end.ms_since(sent.since) / IDLE_MS;
        let of_calls = |index: usize| sent.end[index].saturating_sub(before[index] + scaled(index));
        Traffic {
            call_messages: of_calls(0),
            timer_messages: scaled(0),
            call_bytes: of_calls(1),
            timer_bytes: scaled(1),
            store_requests: 0,
            timer_requests: 0,
        }
    }
}

/// Numbers of messages and bytes of the bus.
struct BusRecords {
    /// Instant from which they count, and the numbers up to it; none from the begin on.
    since: Timestamp,
    before: Option<[u64; 2]>,
    /// Numbers up to the end.
    end: [u64; 2],
}

/// Returns the numbers of messages and bytes of the bus up to now. A record counts once for its writer and once for each reader.
fn records(fleet: &Fleet, agents: usize) -> [u64; 2] {
    let (bus, agents) = (fleet.sim.bus(), agents as u64);
    let (mut messages, mut bytes) = (0, 0);
    // The aggregator reads the calls, all agents the signals, and all of them the presence.
    for (topic, readers) in [(Topic::Calls, 1), (Topic::Signals, agents), (Topic::Presence, agents + 1)] {
        for record in bus.records(topic, 0) {
            messages += 1 + readers;
            bytes += (1 + readers) * (HEADER_BYTES + record.payload.len() as u64);
        }
    }
    [messages, bytes]
}

fn way_answer(answered: &AnsweredCall<'_>) -> WayAnswer {
    let caller = answered.call.get(CALLER).and_then(|caller| caller.parse().ok()).expect("the index of a caller");
    let call = super::workload::ArrivedCall { at: answered.arrived, node: answered.agent, caller };
    WayAnswer { call, at: answered.answered, is_admitted: answered.is_admitted }
}
