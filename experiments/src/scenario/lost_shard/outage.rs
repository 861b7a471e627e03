//! One loss of the store while a caller calls at a constant rate.

use std::num::NonZeroU32;

use fastrand::Rng;
use tollgate_core::decision::Source;
use tollgate_core::messages::signals::FRESH_MS;
use tollgate_core::rules::{OnFailure, OutageBound, Quota, RuleSet};
use tollgate_sim::oracle::Oracle;
use tollgate_sim::{Faults, SimSettings, StoreState};

use super::settings::LostShardSettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS};
use crate::scenario::fleet::Fleet;
use crate::scenario::timeline::Timeline;

/// Length of an interval of the pictures, in ms.
pub(super) const INTERVAL_MS: u64 = 100;
/// Time after which signals from before the bus went down are too old, in ms.
const STALE_MS: u64 = 4_000;
/// Longest time between the beginning of a sub-window and the first call, in ms.
const PHASE_MS_MAX: u64 = 5_000;
const CALLER: &str = "bot";

/// A rule in a fleet that has signals or has none.
#[derive(Clone, Debug)]
pub(super) struct OutageCase {
    pub(super) name: String,
    pub(super) rule: &'static str,
    pub(super) rules: RuleSet,
    pub(super) has_signals: bool,
}

/// Outcome of a loss, or the worst of several.
#[derive(Clone, Debug)]
pub(super) struct LostShardOutcome {
    /// Units of the fullest true window.
    pub(super) fullest: u64,
    /// Admissions while the store was lost.
    pub(super) meanwhile: u64,
    /// Time from the return of the store to the last answer without it, in ms.
    pub(super) back_ms: u64,
    /// Longest time between a call and its answer, in ms.
    pub(super) longest_ms: u64,
    pub(super) timeline: Timeline,
    /// Units of the true window at the end of each interval.
    pub(super) windows: Vec<u64>,
}

impl OutageCase {
    /// Formats the bound of a window at an edge, as `tollgate rules validate` prints it.
    pub(super) fn bound(&self, agents: usize) -> String {
        let policy = self.rules.rules[0].policy.expect("the rule has a policy");
        let agents = u32::try_from(agents).ok().and_then(NonZeroU32::new).expect("a fleet");
        let OutageBound { by_signals, alone } = OutageBound::of(&policy, agents);
        let (by_signals, alone) = (by_signals + policy.edge_units(), alone.map(|units| units + policy.edge_units()));
        if !self.has_signals {
            return alone.map_or_else(|| "none".to_owned(), |units| units.to_string());
        }
        // The signals of two agents may differ.
        let times = 1 + u64::from(policy.edge_units() > 0);
        let seconds = times * FRESH_MS / 1_000;
        if policy.on_failure == OnFailure::Closed {
            by_signals.to_string()
        } else {
            format!("{by_signals} + {seconds} s")
        }
    }

    /// Lets the caller call, and moves the store to this state some time after the first call.
    pub(super) fn lose(
        &self,
        settings: &LostShardSettings,
        state: StoreState,
        lost_after_ms: u64,
        seed: u64,
    ) -> LostShardOutcome {
        let quota = Quota::new(settings.quota, MINUTE_MS).expect("a quota in range");
        let faults = Faults { store_ms_max: 1, bus_ms_max: 5, ack_ms_max: 5, ..Faults::default() };
        let sim = SimSettings { seed, faults, ..SimSettings::fleet(BEGIN, settings.agents) };
        let (mut fleet, mut rng) = (Fleet::new(sim, &self.rules, quota), Rng::with_seed(seed));
        fleet.sim.set_bus_up(self.has_signals);
        let begin = BEGIN.plus_ms(STALE_MS + rng.u64(0..PHASE_MS_MAX));
        let lost = begin.plus_ms(lost_after_ms);
        let returns = lost.plus_ms(settings.lost_ms);
        let end = begin.plus_ms(settings.seconds * 1_000);
        let mut changes = [(lost, state), (returns, StoreState::Up)].into_iter().peekable();
        let mut answers = Vec::new();
        for call in 0..settings.calls_per_s * settings.seconds {
            let at = begin.plus_ms(call * 1_000 / settings.calls_per_s);
            while let Some((instant, state)) = changes.next_if(|(instant, _)| *instant <= at) {
                answers.extend(fleet.run_until(instant));
                fleet.sim.set_store(state);
            }
            answers.extend(fleet.call(at, rng.usize(0..settings.agents), CALLER));
        }
        answers.extend(fleet.run_until(end));
        let intervals = usize::try_from(settings.seconds * 1_000 / INTERVAL_MS).expect("a short time");
        let mut outcome = LostShardOutcome::new(Timeline::new(begin, INTERVAL_MS, intervals));
        let mut oracle = Oracle::new(quota);
        for answered in answers {
            while begin.plus_ms((outcome.windows.len() as u64 + 1) * INTERVAL_MS) <= answered.answered {
                outcome.windows.push(oracle.units());
            }
            outcome.timeline.enter(answered.arrived, answered.is_admitted);
            if matches!(answered.decision.source, Source::Signal | Source::Fallback) {
                outcome.back_ms = outcome.back_ms.max(answered.answered.as_ms().saturating_sub(returns.as_ms()));
            }
            if answered.is_admitted {
                oracle.admit(answered.answered, 1);
                outcome.meanwhile += u64::from((lost..returns).contains(&answered.answered));
            }
        }
        outcome.windows.resize(intervals, oracle.units());
        let tally = fleet.take();
        (outcome.fullest, outcome.longest_ms) = (tally.worst_window, tally.longest_ms);
        outcome
    }
}

impl LostShardOutcome {
    /// Returns the outcome of no calls.
    pub(super) fn new(timeline: Timeline) -> Self {
        Self { fullest: 0, meanwhile: 0, back_ms: 0, longest_ms: 0, timeline, windows: Vec::new() }
    }

    /// Takes the larger numbers of another outcome. The pictures stay.
    pub(super) fn worsen(&mut self, other: &Self) {
        self.fullest = self.fullest.max(other.fullest);
        self.meanwhile = self.meanwhile.max(other.meanwhile);
        self.back_ms = self.back_ms.max(other.back_ms);
        self.longest_ms = self.longest_ms.max(other.longest_ms);
    }
}
