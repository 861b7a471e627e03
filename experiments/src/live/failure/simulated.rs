//! The simulation's counterpart of a run: the same callers at simulated agents, whose servers fail at the same instants.
//!
//! A fleet without Kafka has a bus that is never available. Redis that is loading, full, read-only or without the password refuses
//! requests. Faults of the network that lose data without an end of the connection have no counterpart.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use tollgate::RuleSet;
use tollgate_core::clock::Timestamp;
use tollgate_sim::{AnsweredCall, Observation, SimSettings, Simulation, StoreLoss, StoreState};

use super::faults::ServerFault;
use super::history::{History, Strike};
use super::limiting::{CallMix, Limiting};
use super::load::{Answered, RETRIES_MAX, calls_of};
use super::settings::AGENTS;
use super::settings::PAUSE;
use crate::live::simulated;

/// Number of aggregators of the fleet with Kafka.
const AGGREGATORS: usize = 2;
/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 1_000;
/// Descriptor with the number of a call and of its retries.
const ATTEMPT: &str = "attempt";

#[derive(Clone, Copy, Debug)]
enum ServerChange {
    Store(StoreState),
    StoreIsEmpty,
    BusIsUp(bool),
    AggregatorEnds,
    AggregatorStarts,
    AggregatorPauses(Timestamp),
}

/// A call that is due: its instant, its caller, its number among the caller's of a second, and its number of retries.
type DueCall = Reverse<(Timestamp, usize, usize, usize)>;

impl ServerFault {
    pub(super) fn is_simulated(self) -> bool {
        !matches!(self, Self::BlackHole | Self::LostAnswers | Self::Busy | Self::ReplicaKill)
    }

    /// Returns the changes at the beginning of the fault and at its end.
    fn changes(self, end: Timestamp) -> [Vec<ServerChange>; 2] {
        use ServerChange::{AggregatorEnds, AggregatorPauses, AggregatorStarts, BusIsUp, Store, StoreIsEmpty};
        let store = |state| [vec![Store(state)], vec![Store(StoreState::Up)]];
        match self {
            Self::None | Self::BlackHole | Self::LostAnswers | Self::Busy | Self::ReplicaKill => [vec![], vec![]],
            Self::Pause | Self::LongPause => store(StoreState::Silent),
            Self::Kill => store(StoreState::Unreachable),
            Self::EmptyRestart => [vec![Store(StoreState::Unreachable), StoreIsEmpty], vec![Store(StoreState::Up)]],
            Self::Oom | Self::ReadOnly | Self::Auth | Self::Loading => store(StoreState::Refusing),
            Self::Late4 => store(StoreState::Slow(4)),
            Self::Late20 => store(StoreState::Slow(20)),
            Self::Late200 => store(StoreState::Slow(200)),
            Self::BrokerPause | Self::BrokerKill | Self::BrokerRestart => [vec![BusIsUp(false)], vec![BusIsUp(true)]],
            Self::AggregatorKill => [vec![AggregatorEnds], vec![AggregatorStarts]],
            Self::AggregatorPause => [vec![AggregatorPauses(end)], vec![]],
        }
    }
}

impl ServerChange {
    fn apply(self, sim: &mut Simulation<'_>) {
        match self {
            Self::Store(state) => sim.set_store(state),
            Self::StoreIsEmpty => {
                sim.lose(StoreLoss::All);
                sim.empty_presence_set();
            }
            Self::BusIsUp(is_up) => sim.set_bus_up(is_up),
            Self::AggregatorEnds => sim.crash_aggregator(0),
            Self::AggregatorStarts => sim.start_aggregator(0),
            Self::AggregatorPauses(until) => sim.pause_aggregator(0, until),
        }
    }
}

/// Returns the answers of one fleet to all callers of a run, with the strikes of the run.
pub(super) fn answers(history: &History<'_>, fleet: usize, seed: u64) -> Vec<Answered> {
    let Some((first, last)) = history.strikes.first().zip(history.strikes.last()) else { return Vec::new() };
    // The windows fill before the first fault, as in the run.
    let pause_ms = u64::try_from(PAUSE.as_millis()).expect("a short time");
    let begin = Timestamp::from_ms(first.begin_ms - pause_ms);
    let has_kafka = history.has_kafka[fleet];
    let settings = SimSettings {
        aggregators: if has_kafka { AGGREGATORS } else { 0 },
        partitions: tollgate::KafkaSettings::new("").partitions,
        ..simulated::fleet(begin, AGENTS, seed)
    };
    let mix = history.callers.first().map_or(CallMix::OneRule, |caller| caller.mix);
    let mut sim = Simulation::new(settings, &RuleSet::new(1, Limiting::rules(mix)));
    sim.set_bus_up(has_kafka);
    sim.run_until(begin);
    sim.observations();
    let mut changes = changes(&history.strikes, has_kafka).into_iter().peekable();
    let (mut due, mut answers) = (due_calls(history, fleet, begin, last.next_ms), Vec::new());
    let mut run_until = |sim: &mut Simulation<'_>, due: &mut BinaryHeap<DueCall>, until: Timestamp| {
        while let Some((at, change)) = changes.next_if(|(at, _)| *at <= until) {
            sim.run_until(at.max(sim.now()));
            change.apply(sim);
        }
        sim.run_until(until.max(sim.now()));
        for observation in sim.observations() {
            let Observation::Answered(answered) = observation else { continue };
            let (caller, nth, retries) = attempt_of(&answered);
            let AnsweredCall { decision, arrived, answered, .. } = answered;
            let took = Duration::from_millis(answered.ms_since(arrived));
            answers.push(Answered { caller, took, late: Duration::ZERO, retries, ..Answered::of(&decision) });
            let allowed = decision.allowed;
            if !allowed && history.callers[caller].retries() && retries < RETRIES_MAX {
                let wait_ms = decision.status.map_or(0, |status| status.retry_after_ms);
                due.push(Reverse((answered.plus_ms(wait_ms), caller, nth, retries + 1)));
            }
        }
    };
    while let Some(Reverse((at, caller, nth, retries))) = due.pop() {
        run_until(&mut sim, &mut due, at);
        let call = history.callers[caller].call(None).with(ATTEMPT, format!("{caller} {nth} {retries}"));
        sim.check((nth + retries) % AGENTS, vec![call]);
    }
    let end = sim.now().plus_ms(ANSWERED_MS);
    run_until(&mut sim, &mut due, end);
    answers
}

fn due_calls(history: &History<'_>, fleet: usize, begin: Timestamp, end_ms: u64) -> BinaryHeap<DueCall> {
    let (mut due, mut rng) = (BinaryHeap::new(), fastrand::Rng::with_seed(1));
    for second in 0..end_ms.saturating_sub(begin.as_ms()) / 1_000 {
        let calls = calls_of(history.callers, second, &mut rng).into_iter();
        due.extend(calls.filter(|(_, caller, _)| history.callers[*caller].fleet == fleet).map(
            |(after, caller, nth)| {
                let after_ms = u64::try_from(after.as_millis()).expect("part of a second");
                Reverse((begin.plus_ms(1_000 * second + after_ms), caller, nth, 0))
            },
        ));
    }
    due
}

/// Returns the changes of servers by the strikes that a fleet notices.
fn changes(strikes: &[Strike], has_kafka: bool) -> Vec<(Timestamp, ServerChange)> {
    let mut changes = Vec::new();
    for strike in strikes.iter().filter(|strike| has_kafka || !strike.fault.is_of_bus()) {
        let (begin, end) = (Timestamp::from_ms(strike.begin_ms), Timestamp::from_ms(strike.end_ms));
        for (at, of_instant) in [begin, end].into_iter().zip(strike.fault.changes(end)) {
            changes.extend(of_instant.into_iter().map(|change| (at, change)));
        }
    }
    changes
}

/// Returns the caller, the number and the retries of an answered call.
fn attempt_of(answered: &AnsweredCall<'_>) -> (usize, usize, usize) {
    let numbers = answered.call.get(ATTEMPT).unwrap_or_default();
    let mut numbers = numbers.split(' ').map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    (next(), next(), next())
}
