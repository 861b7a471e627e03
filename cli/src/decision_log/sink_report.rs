//! Report of a sink on its lines.

/// Numbers of lines that were written or lost since the last report.
#[derive(Debug, Default)]
pub(super) struct SinkReport {
    pub(super) written: usize,
    pub(super) lost: usize,
    /// Reason of a loss.
    pub(super) reason: Option<String>,
}
