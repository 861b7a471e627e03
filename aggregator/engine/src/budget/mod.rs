//! Budgets of regions: the division of one quota over regions that each limit on their own.
//!
//! The [`ledger`] is the only truth about the units that regions hold. The [`coordinator`] of the home region answers requests by the
//! [`division`] of the quota, and lets grants expire. Each region asks, renews, gives back ([`region`]), and writes its limits
//! into its own store ([`stored_limit`](tollgate_core::regions::stored_limit)). `docs/internals/regions.md`
//! proves that no quota is spent twice.

pub mod division;
pub mod void;
pub mod counter_budget;
mod seen_entries;
pub mod ledger;
mod demand;
pub mod coordinator;
mod held_grants;
mod give_back;
mod void_requests;
mod region_counter;
mod region_floor;
mod region_events;
pub mod region;
#[cfg(test)]
mod tests;
