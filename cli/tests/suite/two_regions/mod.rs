//! Two regions with real servers: one quota, budgets that follow the demand, a partition, and processes that are killed.
//!
//! Everything is judged from the log of the callers: each call with the times of its request and its answer.

mod calls;
mod regions;
mod shift;
mod partition;
mod crashes;
mod usage;
mod mirror;
