//! capped: every map and queue stays within its cap, back-pressure holds, and each row of an agent is in the log or counted
//! as dropped.
//!
//! Excused: rows of agents that ended, of a topic that was recreated, and of callers that the sketch counts.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tollgate_bus::{BusRecord, Topic};
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::messages::calls::Batch;
use tollgate_core::rules::ListMatch;
use tollgate_sim::{Observation, SimNode, Simulation, Ticket};
use tollgate_wire::Record;

use super::drift_ms;
use super::facts::{Facts, UnnamedUnits, is_unnamed};

/// Time after which batches are sent although earlier ones are not acknowledged, in ms.
const ROUND_MS_MAX: u64 = 100;

/// Maximum number of batches of one partition that wait for the bus.
const WAITING_LEN_MAX: usize = 64;

/// Rounds of all writers, and rows of all agents.
#[derive(Default)]
pub(crate) struct Capped {
    rounds: BTreeMap<SimNode, Round>,
    rows: BTreeMap<usize, Rows>,
    is_recreated: bool,
    turn: usize,
    /// Counters that requests have charged before, and those whose charges followed the decisions on calls.
    repeated: HashMap<Ticket, Vec<CounterId>>,
    followed: HashMap<Ticket, Vec<CounterId>>,
    /// A writer that did not wait for its acknowledgements in this step; it may if it leaves.
    hasty: Option<(SimNode, String)>,
}

/// The records of a writer that were sent last at one instant.
#[derive(Default)]
struct Round {
    sent_ms: u64,
    sent: usize,
    unreported: BTreeSet<(Partition, u64)>,
}

/// Rows of one life of an agent.
#[derive(Default)]
struct Rows {
    expected: u64,
    /// Rows among them of settlements that may have been dropped.
    optional: u64,
    unnamed: UnnamedUnits,
    /// Batches that were reported as lost.
    lost: BTreeSet<(Partition, u64)>,
}

impl Capped {
    pub(crate) fn observe(&mut self, facts: &Facts, sim: &Simulation<'_>, observation: &Observation<'_>) {
        match observation {
            Observation::Ended(node) => {
                self.rounds.remove(node);
                self.hasty.take_if(|(hasty, _)| hasty == node);
                if let SimNode::Agent(agent) = node {
                    self.rows.remove(agent);
                }
            }
            Observation::CallsRecreated => self.is_recreated = true,
            Observation::Sent(node, record) => {
                self.sent(sim.now().as_ms(), *node, (record.partition, record.tag));
            }
            Observation::Reported(node, record, offset) => {
                let batch = (record.partition, record.tag);
                self.rounds.entry(*node).or_default().unreported.remove(&batch);
                if let (SimNode::Agent(agent), None) = (node, offset) {
                    self.rows.entry(*agent).or_default().lost.insert(batch);
                }
            }
            Observation::Answered(answered) => {
                let is_denied = matches!(facts.list_match(answered.generation, &answered.call), ListMatch::Denied(_));
                let applied = if is_denied { 0 } else { facts.applied(answered.generation, &answered.call).len() };
                self.rows.entry(answered.agent).or_default().expected += applied.max(1) as u64;
                let follows = answered.rules.iter().filter(|rule| rule.follows).map(|rule| rule.counter);
                if let Some(ticket) = answered.ticket {
                    self.followed.entry(ticket).or_default().extend(follows);
                    if answered.error.is_none() {
                        self.taken_back(answered.agent, ticket);
                    }
                }
            }
            Observation::Executed { ticket, charges, answer: Ok(results), .. } => {
                let repeated = charges.iter().zip(results).filter(|(_, result)| result.repeated);
                let repeated: Vec<_> = repeated.map(|(charge, _)| charge.counter).collect();
                // After a lost answer, the charges of the request that is sent again count as new ones.
                self.repeated.entry(*ticket).and_modify(Vec::clear).or_insert(repeated);
            }
            Observation::LateAnswer { agent, ticket, error: None } => self.taken_back(*agent, *ticket),
            Observation::Corrected(corrected) => {
                let was_asked = |counter| corrected.charges.iter().any(|charge| charge.counter == counter);
                let is_row = |counter, units| units > 0 || !was_asked(counter) || corrected.error.is_none();
                let rows = self.rows.entry(corrected.agent).or_default();
                for (applied, units) in facts.corrected(corrected) {
                    // Of settlements that are still on their way to the store, only the agent knows the units.
                    let may_drop = rows.unnamed.may_drop(corrected, &applied, units)
                        || is_unnamed(corrected) && !applied.is_eventual();
                    if is_row(applied.counter, units) {
                        rows.expected += 1;
                        rows.optional += u64::from(may_drop && !was_asked(applied.counter));
                    }
                }
            }
            _ => {}
        }
    }

    /// Counts the rows that take back the units of a repeated call, which was published with its decision.
    fn taken_back(&mut self, agent: usize, ticket: Ticket) {
        let (followed, repeated) = (self.followed.remove(&ticket), self.repeated.remove(&ticket));
        let repeated = repeated.unwrap_or_default();
        let rows = followed.iter().flatten().filter(|counter| repeated.contains(counter)).count();
        self.rows.entry(agent).or_default().expected += rows as u64;
    }

    fn sent(&mut self, now_ms: u64, node: SimNode, batch: (Partition, u64)) {
        let round = self.rounds.entry(node).or_default();
        if round.sent_ms == now_ms {
            round.sent += 1;
            round.unreported.insert(batch);
            return;
        }
        let new_round = Round { sent_ms: now_ms, sent: 1, unreported: BTreeSet::from([batch]) };
        let before = std::mem::replace(round, new_round);
        let (unreported, sent, waited_ms) = (before.unreported.len(), before.sent, now_ms - before.sent_ms);
        if unreported > 0 && waited_ms + drift_ms(ROUND_MS_MAX) < ROUND_MS_MAX {
            let what = format!("sends again after {waited_ms} ms, without reports on {unreported} of {sent} batches");
            self.hasty = Some((node, what));
        }
    }

    pub(crate) fn check(&mut self, facts: &Facts, sim: &Simulation<'_>) -> Result<(), String> {
        if let Some((node, what)) = self.hasty.take() {
            return Err(format!("capped: {node:?} {what}"));
        }
        // One node at each step, since to count a table takes a lock of each of its shards.
        self.turn = self.turn.wrapping_add(1);
        let counters_max = facts.counters_max();
        // Tables are split in shards, each of which rounds its part of the cap up; the sketch comes on top.
        let sharded_max = counters_max + 128;
        let waiting_max = WAITING_LEN_MAX * sim.bus().partitions as usize;
        let agents = sim.agents();
        let agent = &agents[self.turn % agents.len()];
        if let Some(held) = agent.engine().map(tollgate_engine::Engine::held)
            && (held.counters > sharded_max || held.waiting_batches > waiting_max || held.own_batches > 10_000)
        {
            return Err(format!("capped: {held:?}"));
        }
        if self.turn.is_multiple_of(16) && sim.store().counters() > sharded_max {
            return Err(format!("capped: the store holds {} counters", sim.store().counters()));
        }
        for worker in sim.aggregators().iter().filter_map(|aggregator| aggregator.worker()) {
            // The cap of a worker is one over all partitions.
            let counters: usize = worker.assigned().map(|(_, assigned)| assigned.counting.counters_len()).sum();
            if counters > counters_max.saturating_mul(sim.bus().partitions as usize) {
                return Err(format!("capped: an aggregator holds {counters} counters"));
            }
        }
        Ok(())
    }

    /// Checks that each row of each living agent is in the log once, or is counted as dropped.
    pub(crate) fn finish(&self, facts: &Facts, sim: &Simulation<'_>) -> Result<(), String> {
        if self.is_recreated || facts.overflows() {
            return Ok(());
        }
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            let (mut seen, mut in_log) = (HashSet::new(), 0);
            let Some(rows) = self.rows.get(&index) else { continue };
            for partition in 0..sim.bus().partitions {
                let is_honest = |record: &&BusRecord| !sim.bus().is_forged(Topic::Calls, partition, record.offset);
                for record in sim.bus().records(Topic::Calls, partition).iter().filter(is_honest) {
                    let Ok(batch) = Batch::decode(&record.payload) else { continue };
                    let settings = engine.settings();
                    let is_own = batch.name.agent == settings.node && batch.name.epoch == settings.epoch.as_ms();
                    let key = (partition, batch.name.sequence);
                    if is_own && seen.insert(key) && !rows.lost.contains(&key) {
                        in_log += batch.rows.len() as u64;
                    }
                }
            }
            let (expected, dropped) = (rows.expected, engine.dropped_rows());
            if !(expected - rows.optional..=expected).contains(&(in_log + dropped)) {
                return Err(format!(
                    "in-flight: agent {index} wrote {expected} rows, {in_log} are in the log and {dropped} dropped"
                ));
            }
        }
        Ok(())
    }
}
