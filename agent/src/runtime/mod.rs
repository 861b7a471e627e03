//! Threads and tasks of an agent. They execute the effects of the engine's state machines and decide nothing.

mod listeners;
#[cfg(feature = "bus")]
mod bus_writer;
#[cfg(feature = "bus")]
mod bus_threads;
mod deadline;
mod steps_in_flight;
mod maintenance_task;

#[cfg(feature = "bus")]
pub(crate) use bus_threads::{BusListeners, BusThreads, SignalObserver};
#[cfg(test)]
pub(crate) use deadline::TURNS_AFTER_DEADLINE;
pub(crate) use deadline::{answer_in_time, inside};
#[cfg(feature = "rules-file")]
pub(crate) use listeners::RulesListener;
pub(crate) use maintenance_task::{MaintenanceSetup, MaintenanceTask};
pub(crate) use steps_in_flight::{StepsEvent, StepsInFlight};
