//! The simulation: agents, a store, a bus and aggregators in virtual time, driven by one queue of events.
//!
//! The state machines are those of production, and nothing of their behaviour is written again here: `agent` and
//! `aggregator` are shells that execute effects, `environment` is everything around them, and every record is encoded
//! and decoded. Simulated are time, delays and faults. One seed decides everything, so a run can be repeated. [`replay`] runs
//! an access log through it; [`regions`] are budgets of regions in virtual time. All are judged by the same [`oracle`].

pub mod figures;
pub mod oracle;
pub mod reference;
mod faults;
mod observation;
mod event;
mod scheduler;
mod settings;
mod bus;
mod presence_set;
mod store;
mod forger;
mod planted_bugs;
mod mutants;
mod late_parts;
mod environment;
mod agent;
mod aggregator;
mod workload;
mod simulation;
pub mod replay;
#[cfg(feature = "regions")]
pub mod regions;

pub use agent::{Correction, SimAgent};
pub use aggregator::SimAggregator;
pub use bus::SimBus;
pub use faults::{Cut, Faults, StoreLoss, StoreState};
pub use observation::{AnsweredCall, CorrectedCall, Observation, RecordName, SimNode, Ticket};
pub use planted_bugs::PlantedBug;
pub use settings::{SimAgentSettings, SimSettings};
pub use simulation::Simulation;
pub use store::SimStore;
pub use workload::Workload;
