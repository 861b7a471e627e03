//! rollups: the closed minutes in the log equal a recount of the distinct batches up to the offset that each one names.
//!
//! Each rule, caller, agent, endpoint and tier of a published minute has a rollup. It does not matter which aggregator wrote a minute,
//! and how often. Excused: minutes of a log that was recreated, and those with
//! charges that came minutes too late.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tollgate_bus::Topic;
use tollgate_core::clock::CLOCK_ERROR_MAX_MS;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::{Batch, Outcome};
use tollgate_core::messages::rollups::{MINUTE_MS, Rollup, RollupBatch, Subject, Totals};
use tollgate_core::messages::signals::Offset;
use tollgate_core::rules::{ENDPOINT, TIER};
use tollgate_sim::Simulation;
use tollgate_wire::Record;

/// Delay from which on a charge may be too late for its minute, in ms.
const LATE_MS: u64 = 4 * MINUTE_MS;

/// One row of the log.
struct LoggedRow {
    offset: Offset,
    minute: u64,
    /// Rule and caller of the counter.
    of_counter: Vec<Subject>,
    /// Agent, endpoint and tier of the call; on its home row only.
    of_call: Vec<Subject>,
    outcome: Outcome,
    cost: i64,
    /// True if the call was admitted; on its home row only.
    home: Option<bool>,
    is_late: bool,
}

#[derive(Default)]
pub(crate) struct Rollups {
    pub(crate) compared: usize,
}

impl Rollups {
    pub(crate) fn finish(&mut self, sim: &Simulation<'_>) -> Result<(), String> {
        let mut newest: BTreeMap<(Partition, u64, Subject), (Offset, Rollup)> = BTreeMap::new();
        for record in sim.bus().records(Topic::Rollups, 0) {
            let batch = RollupBatch::decode(&record.payload).map_err(|error| format!("rollups: {error}"))?;
            for rollup in batch.rollups.iter().filter(|_| batch.log == sim.bus().log_id) {
                let name = (batch.partition, rollup.start.as_ms(), rollup.subject.clone());
                let known = newest.entry(name).or_insert_with(|| (batch.as_of, rollup.clone()));
                if batch.as_of >= known.0 {
                    *known = (batch.as_of, rollup.clone());
                }
            }
        }
        let mut logs: BTreeMap<Partition, Vec<LoggedRow>> = BTreeMap::new();
        for ((partition, minute, subject), (as_of, rollup)) in &newest {
            let log = logs.entry(*partition).or_insert_with(|| rows(sim, *partition));
            let of_minute: Vec<&LoggedRow> =
                log.iter().filter(|row| row.minute == *minute && row.offset <= *as_of).collect();
            if of_minute.iter().any(|row| row.is_late) {
                continue;
            }
            let place = || format!("rollups: partition {partition} as of {as_of}, minute {minute}");
            if *subject == Subject::Calls {
                let mut named = of_minute.iter().flat_map(|row| row.of_counter.iter().chain(&row.of_call));
                let has_none = |subject: &&Subject| !newest.contains_key(&(*partition, *minute, (*subject).clone()));
                if let Some(missing) = named.find(has_none) {
                    return Err(format!("{}: the log holds {missing:?}, which has no rollup", place()));
                }
            }
            let Some((admitted, denied, units)) = recount(&of_minute, subject) else { continue };
            self.compared += 1;
            let Totals { admitted: in_rollup, units: units_in_rollup, .. } = rollup.totals;
            if (admitted, denied, units) != (in_rollup, rollup.totals.denied(), units_in_rollup) {
                return Err(format!(
                    "{}, {subject:?}: {:?}, the log holds {admitted} admitted and {denied} denied calls with {units} units",
                    place(),
                    rollup.totals
                ));
            }
        }
        Ok(())
    }
}

/// Returns admitted and denied calls, and the units; nothing of a list or a switch, which has no counter.
fn recount(rows: &[&LoggedRow], subject: &Subject) -> Option<(u64, u64, i64)> {
    let (mut admitted, mut denied, mut units) = (0, 0, 0);
    if matches!(subject, Subject::Rule(_) | Subject::Caller { .. }) {
        let of_subject = || rows.iter().filter(|row| row.of_counter.contains(subject));
        of_subject().next()?;
        for row in of_subject() {
            match row.outcome {
                Outcome::Admitted | Outcome::Charged => (admitted, units) = (admitted + 1, units + row.cost),
                Outcome::Corrected => units += row.cost,
                Outcome::Denied(_) => denied += 1,
                Outcome::Spared | Outcome::Reset => {}
            }
        }
    } else {
        for row in rows.iter().filter(|row| *subject == Subject::Calls || row.of_call.contains(subject)) {
            match row.home {
                // A call that was held back with its request is not charged.
                Some(true) => {
                    admitted += 1;
                    units += if row.outcome.is_admitted() { row.cost } else { 0 };
                }
                Some(false) => denied += 1,
                None => {}
            }
        }
    }
    Some((admitted, denied, units))
}

fn rows(sim: &Simulation<'_>, partition: Partition) -> Vec<LoggedRow> {
    let (mut rows, mut seen) = (Vec::new(), HashSet::new());
    for record in sim.bus().records(Topic::Calls, partition) {
        let Ok(batch) = Batch::decode(&record.payload) else { continue };
        let is_forged = sim.bus().is_forged(Topic::Calls, partition, record.offset);
        if is_forged || !seen.insert((batch.name.agent.clone(), batch.name.epoch, batch.name.sequence)) {
            continue;
        }
        let appended = record.appended.as_ms();
        for row in &batch.rows {
            let at = row.at.as_ms().min(appended + CLOCK_ERROR_MAX_MS);
            let counter = row.counter.map(|index| &batch.counters[index as usize]);
            let of_counter = counter.map(|counter| {
                let (rule, caller) = (counter.rule.clone(), counter.label.clone());
                [Subject::Rule(rule.clone()), Subject::Caller { rule, caller }]
            });
            let of_call = row.home.as_ref().map(|home| {
                let set = &batch.descriptor_sets[home.descriptors as usize];
                let value = |name| {
                    let (_, value) = set.iter().find(|(of, _)| batch.texts.get(*of) == Some(name))?;
                    batch.texts.get(*value).map(Arc::<str>::from)
                };
                let agent = Subject::Agent(batch.name.agent.clone());
                [Some(agent), value(ENDPOINT).map(Subject::Endpoint), value(TIER).map(Subject::Tier)]
            });
            rows.push(LoggedRow {
                offset: record.offset,
                minute: at - at % MINUTE_MS,
                of_counter: of_counter.into_iter().flatten().collect(),
                of_call: of_call.into_iter().flatten().flatten().collect(),
                outcome: row.outcome,
                cost: row.cost,
                home: row.home.as_ref().map(|home| home.denied.is_none()),
                is_late: at + LATE_MS < appended,
            });
        }
    }
    rows
}
