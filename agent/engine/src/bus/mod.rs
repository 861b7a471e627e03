//! Bus: rows on their way to batches of `calls`, and the signals that come back.

mod dead_letters;
mod signals;
mod absurd_signals;
mod known_rows;
mod row_buffer;
mod batcher;
mod bus_link;

pub(crate) use absurd_signals::{Judgement, judge};
pub(crate) use batcher::{BatchRounds, Batcher, ClosedBatch};
pub(crate) use bus_link::BusLink;
pub use dead_letters::IgnoredRecord;
pub(crate) use known_rows::{KnownRow, SubjectNumber};
pub(crate) use row_buffer::{BufferedRow, LINGER_MS, OwnHome, RowBuffer, RowCollector, RowOrder};
