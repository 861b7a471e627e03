//! forgeries: a record that neither an agent nor an aggregator wrote changes nothing. No agent counts more agents than
//! there are, or follows signals far beyond the end of the log, and in the end none follows signals beyond it; and no
//! honest record is a dead letter.
//!
//! Excused: signals of a topic that was recreated, whose writers have not noticed it; and claims of an aggregator whose
//! earlier records were lost, because in the end all aggregators know each other.

use tollgate_bus::Topic;
use tollgate_sim::{Observation, Simulation};

/// Number of records by which a forged record may advance the signals that agents follow, for a second.
const ADVANCE_RECORDS_MAX: u64 = 10_000;

/// Dead letters of a run.
#[derive(Default)]
pub(crate) struct Forgeries {
    is_recreated: bool,
    pub(crate) passed_over: usize,
}

impl Forgeries {
    pub(crate) fn observe(&mut self, sim: &Simulation<'_>, observation: &Observation<'_>) -> Result<(), String> {
        match observation {
            Observation::CallsRecreated => self.is_recreated = true,
            Observation::DeadLetter { node, topic, partition, offset, reason } => {
                if sim.bus().is_forged(*topic, *partition, *offset) {
                    self.passed_over += 1;
                } else if !(self.is_recreated && *topic == Topic::Signals || *topic == Topic::Presence) {
                    return Err(format!("forgeries: {node:?} passes over an honest record of {topic:?}: {reason}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn check(&self, sim: &Simulation<'_>) -> Result<(), String> {
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            let agents = engine.fleet_size().get() as usize;
            if agents > sim.agents().len() {
                return Err(format!("forgeries: agent {index} counts {agents} agents of {}", sim.agents().len()));
            }
            for partition in (0..sim.bus().partitions).filter(|_| !self.is_recreated) {
                let (counted, end) = (engine.signals_count_to(partition), sim.bus().end(Topic::Calls, partition));
                if counted.is_some_and(|counted| counted > end + ADVANCE_RECORDS_MAX) {
                    return Err(format!(
                        "forgeries: agent {index} follows {counted:?} of {end} in partition {partition}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that no node passes over an honest record for good: the aggregators know each other.
    pub(crate) fn finish(sim: &Simulation<'_>) -> Result<(), String> {
        for (index, agent) in sim.agents().iter().enumerate() {
            let Some(engine) = agent.engine() else { continue };
            for partition in 0..sim.bus().partitions {
                let (counted, end) = (engine.signals_count_to(partition), sim.bus().end(Topic::Calls, partition));
                if counted.is_some_and(|counted| counted >= end.max(1)) {
                    return Err(format!("forgeries: agent {index} still follows {counted:?} of {end}"));
                }
            }
        }
        let members: Vec<_> = sim.aggregators().iter().filter_map(|one| Some(one.worker()?.members())).collect();
        let expected = sim.aggregators().len();
        if members.iter().any(|members| *members != expected) {
            return Err(format!("forgeries: {expected} aggregators count {members:?}"));
        }
        Ok(())
    }
}
