//! wake-up: an agent that sleeps wakes in time. Rows are handed to the bus once the batch has lingered and the previous
//! round is acknowledged, refused or given up; a store that is needed is probed, at the pace that its relapses allow.
//!
//! Excused: rows of calls to which no rule applies, and of callers that the sketch counts, because their
//! partition is not known here; and agents that are not scheduled, or were not a moment ago.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::counter::Partition;
use tollgate_core::rules::ListMatch;
use tollgate_sim::{AnsweredCall, Observation, RecordName, SimNode, Simulation};

use super::drift_ms;
use super::facts::Facts;

/// Time for which a batch waits for further rows, in ms.
const LINGER_MS: u64 = 5;
/// Maximum time in which the rows of a round are collected, in ms.
const COLLECT_MS_MAX: u64 = 3;
/// Time after which a round is sent although the one before it is not acknowledged, in ms.
const ROUND_MS_MAX: u64 = 100;
/// Time after a pause in which an agent does what has become due, in ms.
const CATCH_UP_MS: u64 = 20;
/// Interval between probes of a store that does not answer, in ms.
const PROBE_MS: u64 = 10;
/// Maximum pause before a probe of a store that relapses, in ms.
const PAUSE_MS_MAX: u64 = 500;
/// Time after which a loss of the store is no relapse, in ms.
const RELAPSE_MS: u64 = 2_000 + PAUSE_MS_MAX;

/// Sleepers, by agent.
#[derive(Default)]
pub(crate) struct WakeUps {
    writers: BTreeMap<usize, Writer>,
    probes: BTreeMap<usize, Probes>,
    /// Time from which an agent has caught up after its last pause.
    caught_up_ms: BTreeMap<usize, u64>,
}

/// Writer of one life of an agent.
#[derive(Default)]
struct Writer {
    /// The time of the oldest row that waits, by partition.
    waits_since: BTreeMap<Partition, u64>,
    /// Records of the newest round that are not reported yet.
    unreported: BTreeSet<(Partition, u64)>,
    is_refused: bool,
    sent_ms: u64,
    reported_ms: u64,
}

/// Probes of one life of an agent.
#[derive(Default)]
struct Probes {
    needed_since: Option<u64>,
    is_outstanding: bool,
    /// True if another reason than a miss called for the last probe before its answer.
    is_needed: bool,
    /// True if the answer to the last probe may end the need for probes.
    is_answered: bool,
    found_ms: Option<u64>,
    relapses: u32,
    /// The time from which the next probe is due.
    due_ms: u64,
}

impl WakeUps {
    pub(crate) fn observe(&mut self, facts: &Facts, sim: &Simulation<'_>, observation: &Observation<'_>) {
        let now = sim.now().as_ms();
        match observation {
            Observation::Ended(SimNode::Agent(agent)) => {
                self.writers.remove(agent);
                self.probes.remove(agent);
            }
            Observation::AgentPaused(agent, until) => {
                let caught_up_ms = self.caught_up_ms.entry(*agent).or_default();
                *caught_up_ms = (*caught_up_ms).max(until.as_ms() + CATCH_UP_MS);
            }
            Observation::Answered(answered) if !facts.overflows() => self.answered(facts, sim, answered),
            Observation::Sent(SimNode::Agent(agent), RecordName { partition, tag, .. }) => {
                let writer = self.writers.entry(*agent).or_default();
                writer.begin_round(now);
                writer.unreported.insert((*partition, *tag));
                writer.waits_since.remove(partition);
            }
            Observation::NoRoom(SimNode::Agent(agent), RecordName { partition, .. }) => {
                let writer = self.writers.entry(*agent).or_default();
                writer.begin_round(now);
                writer.is_refused = true;
                writer.waits_since.entry(*partition).or_insert(now);
            }
            Observation::Reported(SimNode::Agent(agent), RecordName { partition, tag, .. }, _) => {
                let writer = self.writers.entry(*agent).or_default();
                if writer.unreported.remove(&(*partition, *tag)) {
                    writer.reported_ms = now;
                }
            }
            Observation::ProbeSent { agent, is_first } => {
                let probes = self.probes.entry(*agent).or_default();
                // One probe ends, and the next begins at once.
                if *is_first && probes.is_answered {
                    let engine = sim.agents()[*agent].engine();
                    probes.found(now, engine.is_some_and(tollgate_engine::Engine::has_unsynced));
                }
                if *is_first {
                    probes.is_needed = false;
                }
                (probes.is_outstanding, probes.is_answered) = (true, false);
            }
            Observation::Probed { agent, is_answered, is_late } => {
                let probes = self.probes.entry(*agent).or_default();
                let may_end = *is_answered && !is_late;
                (probes.is_outstanding, probes.is_answered, probes.due_ms) = (false, may_end, now + PROBE_MS);
            }
            _ => {}
        }
    }

    fn answered(&mut self, facts: &Facts, sim: &Simulation<'_>, answered: &AnsweredCall<'_>) {
        if matches!(facts.list_match(answered.generation, &answered.call), ListMatch::Denied(_)) {
            return;
        }
        let writer = self.writers.entry(answered.agent).or_default();
        for applied in facts.applied(answered.generation, &answered.call) {
            let partition = applied.counter.partition(sim.bus().partitions);
            writer.waits_since.entry(partition).or_insert(sim.now().as_ms());
        }
    }

    pub(crate) fn check(&mut self, facts: &Facts, sim: &Simulation<'_>) -> Result<(), String> {
        let now = sim.now().as_ms();
        self.caught_up_ms.retain(|_, until| *until >= now);
        let runs = |agent: &usize| !self.caught_up_ms.contains_key(agent);
        for (agent, writer) in self.writers.iter().filter(|(agent, _)| !facts.overflows() && runs(agent)) {
            for (partition, since) in &writer.waits_since {
                let due = writer.may_send_ms().max(since + LINGER_MS) + COLLECT_MS_MAX + drift_ms(ROUND_MS_MAX);
                if now > due {
                    let late_ms = now - due;
                    return Err(format!(
                        "wake-up: rows of agent {agent}, partition {partition}, are {late_ms} ms late"
                    ));
                }
            }
        }
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            let probes = self.probes.entry(index).or_default();
            probes.is_needed |= engine.needs_store();
            if !probes.is_outstanding && std::mem::take(&mut probes.is_answered) {
                probes.found(now, engine.has_unsynced());
                if engine.is_degraded() && runs(&index) {
                    return Err(format!("wake-up: the store answered agent {index}, which does not use it"));
                }
            }
            if !engine.needs_store() || probes.is_outstanding {
                probes.needed_since = None;
                continue;
            }
            let due = probes.due_ms.max(*probes.needed_since.get_or_insert(now));
            // A shell sleeps for at least 1 ms.
            if now > due + 1 + drift_ms(PAUSE_MS_MAX) && runs(&index) {
                return Err(format!("wake-up: a probe of the store by agent {index} is {} ms late", now - due));
            }
        }
        Ok(())
    }
}

impl Writer {
    fn begin_round(&mut self, now: u64) {
        if self.sent_ms != now {
            self.unreported.clear();
            (self.sent_ms, self.is_refused) = (now, false);
        }
    }

    /// Returns the time from which the next round may be sent and the writer has seen the reports that allow it.
    fn may_send_ms(&self) -> u64 {
        let at_last = self.sent_ms + ROUND_MS_MAX;
        if self.is_refused || !self.unreported.is_empty() {
            return at_last;
        }
        // It fetches reports at intervals of a quarter of the time that it has waited.
        let interval_ms = (self.reported_ms.saturating_sub(self.sent_ms) / 4).max(LINGER_MS);
        at_last.min(self.reported_ms + interval_ms)
    }
}

impl Probes {
    /// Records that the store answered a probe, and calls use it again. Units that it has no room for wait as after a
    /// relapse. The answer to a ping that only a miss called for ends no row of relapses.
    fn found(&mut self, now: u64, are_units_left: bool) {
        let is_relapse = are_units_left || self.found_ms.is_some_and(|found_ms| now < found_ms + RELAPSE_MS);
        self.relapses = match (is_relapse, self.is_needed) {
            (true, _) => self.relapses + 1,
            (false, true) => 0,
            (false, false) => self.relapses,
        };
        let pause_ms = if self.relapses > 0 { PROBE_MS << (self.relapses - 1).min(20) } else { 0 };
        (self.found_ms, self.due_ms) = (Some(now), now + pause_ms.min(PAUSE_MS_MAX));
    }
}
