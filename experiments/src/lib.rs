//! The laboratory: measurements of Tollgate in virtual time and in wall time.
//!
//! [`scenario`] runs experiments that files describe, and [`report`] writes their results as a page with plots. The fleets are those
//! of [`tollgate_sim`]. [`live`] measures over real servers, or over servers that it starts and breaks itself. [`command`] is the
//! command line.

mod error;
pub mod scenario;
pub mod live;
pub mod report;
pub mod command;

pub use error::ExperimentError;
