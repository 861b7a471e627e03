//! Rows as calls leave them: in memory of the caller's own stripe, without dictionaries.
//!
//! A row goes to a buffer, which has a lock, with all that it says. Later rows of a call that its thread knows say only
//! what is new, and go to a ring without a lock ([`crate::bus::known_rows`]); [`RowCollector`] restores their order. The
//! publishing thread collects rows in rounds and makes batches of them ([`crate::bus::batcher`]). It raises the number of
//! the round before it takes the first buffer, and a call reads the number while it holds its buffer. So a buffered row
//! that says round r is taken in round r at the latest, and not before round r - 1. Views know their units by rounds.
//! Past the caps, rows are dropped and counted, and their units count as if no signal would ever contain them.

mod buffer;
mod row_stripes;
mod collector;
#[cfg(test)]
mod tests;

pub(crate) use buffer::{BatchedSubject, BufferedRow, OwnHome, OwnValues, RowBuffer, RowOrder};
pub(crate) use collector::RowCollector;
pub(crate) use row_stripes::{LINGER_MS, RowBuffers};
