//! Delivery reports of one writer, until it fetches them.

use std::collections::VecDeque;

use parking_lot::Mutex;

use super::DeliveryReport;

/// Maximum number of reports that a writer has not fetched. Older ones are dropped; their records then count as
/// unreported.
const REPORTS_LEN_MAX: usize = 200_000;

#[derive(Default)]
pub(crate) struct ReportQueue(Mutex<VecDeque<DeliveryReport>>);

impl ReportQueue {
    /// Drops the oldest report beyond the cap.
    pub(crate) fn push(&self, report: DeliveryReport) {
        let mut reports = self.0.lock();
        reports.push_back(report);
        if reports.len() > REPORTS_LEN_MAX {
            reports.pop_front();
        }
    }

    pub(crate) fn take(&self) -> Vec<DeliveryReport> {
        self.0.lock().drain(..).collect()
    }
}
