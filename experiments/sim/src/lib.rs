//! The simulation: agents, a store, a bus and aggregators in virtual time, driven by one queue of events, and worlds of several
//! regions of them.
//!
//! The state machines are those of production, and nothing of their behaviour is written again here: `agent` and
//! `aggregator` are shells that execute effects, `environment` is everything around them, and every record is encoded
//! and decoded. Simulated are time, delays and faults. One seed decides everything, so a run can be repeated. [`replay`] runs
//! an access log through it. All are judged by the same [`oracle`].

pub mod figures;
pub mod oracle;
pub mod reference;
mod random_stream;
mod region_mistake;
mod faults;
mod observation;
mod event;
mod scheduler;
mod settings;
mod bus;
mod presence_set;
mod store_limits;
mod store;
mod primaries;
mod forger;
mod planted_bugs;
mod mutants;
mod late_parts;
mod environment;
mod budget_member;
mod ledger_mistakes;
mod agent;
mod aggregator;
mod workload;
mod simulation;
mod store_incidents;
mod ledger_log;
mod mirror_link;
mod sim_regions;
pub mod replay;

pub use agent::{Correction, SimAgent};
pub use aggregator::SimAggregator;
pub use bus::SimBus;
pub use faults::{Cut, Faults, MemberFaults, MirrorFaults, StoreLoss, StoreState};
pub use ledger_log::LedgerLog;
pub use observation::{AnsweredCall, CorrectedCall, Observation, RecordName, SimNode, Ticket};
pub use planted_bugs::PlantedBug;
pub use primaries::SimPrimaries;
pub use random_stream::random_stream;
pub use region_mistake::RegionMistake;
pub use settings::{BudgetSettings, SimAgentSettings, SimSettings};
pub use sim_regions::SimRegions;
pub use simulation::Simulation;
pub use store::SimStore;
pub use workload::Workload;
