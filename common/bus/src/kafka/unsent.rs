//! Records that a producer has not sent, taken back when another one replaces it, so that none is lost with an old password or
//! certificate.

use std::sync::Arc;

use parking_lot::Mutex;
use tollgate_core::counter::Partition;

use crate::reports::ReportQueue;

/// Data that librdkafka returns with a record's delivery report.
pub(super) struct DeliveryTag {
    pub(super) queue: Arc<ReportQueue>,
    pub(super) partition: Partition,
    pub(super) tag: u64,
}

/// Record that was not sent.
pub(super) struct UnsentRecord {
    pub(super) topic: String,
    pub(super) key: Option<Vec<u8>>,
    /// Content; none deletes the record of the key.
    pub(super) payload: Option<Vec<u8>>,
    pub(super) tag: Box<DeliveryTag>,
}

/// Records that are taken back; nothing outside of a replacement.
#[derive(Default)]
pub(super) struct UnsentRecords(Mutex<Option<Vec<UnsentRecord>>>);

impl UnsentRecords {
    /// Collects the records that are reported from now on.
    pub(super) fn collect(&self) {
        *self.0.lock() = Some(Vec::new());
    }

    pub(super) fn is_collecting(&self) -> bool {
        self.0.lock().is_some()
    }

    pub(super) fn add(&self, record: UnsentRecord) {
        self.0.lock().get_or_insert_default().push(record);
    }

    /// Returns the records in their order, and ends the collection.
    pub(super) fn take(&self) -> Vec<UnsentRecord> {
        self.0.lock().take().unwrap_or_default()
    }
}
