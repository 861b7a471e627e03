//! Link of an agent to its store. Every answer and every missed deadline comes here, and every charge that waits for the store
//! leaves from here.
//!
//! It makes no decision on a call: those who decide ask it for the store's time and health, and tell it what became of a charge.

mod state;
mod health;
mod pending_units;
mod backfill;
mod reopening;
mod corrected;
#[cfg(test)]
mod tests;

pub use pending_units::BACKFILL_CHARGES_MAX;
pub(crate) use state::StoreLink;
