//! The behaviour of an aggregator, without I/O: counts of the log of calls, the partitions to count, the signals to send.
//!
//! [`worker::Worker`] is the state machine that a shell drives: it takes decoded records, answers and ticks, and returns
//! effects. `tollgate-aggregator` executes them over a real bus; a simulation executes them over a simulated one. Reading and
//! writing bytes (`tollgate-wire`), threads, files, metrics and HTTP are left to the shell. Modules are listed in the order of
//! their layers: each one imports only the modules before it.

pub mod analytics;
pub mod counting;
pub mod membership;
pub mod replay_window;
pub mod worker;
pub mod usage;
pub mod budget;
