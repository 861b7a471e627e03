//! Experiments: measurements of Tollgate in virtual time and in wall time.
//!
//! [`scenario`] runs experiments that files describe, and `report` writes their results as a page with plots. [`sim`] runs
//! agents, store, bus and aggregator in virtual time; [`replay`] runs an access log through it; [`demo`] runs the real parts in wall time. All evaluate by the same [`oracle`]. [`live`] measures over real
//! [`servers`], or over servers that it starts and breaks itself.

pub mod size;
mod error;
mod figures;
pub mod oracle;
pub mod sim;
pub mod replay;
pub mod regions;
pub mod scenario;
pub mod servers;
pub mod local_regions;
pub mod demo;
pub mod region_demo;
pub mod live;
#[cfg(feature = "report")]
pub mod report;

pub use error::ExperimentError;
