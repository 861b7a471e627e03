//! Requests whose answers are late. Past [`LATE_REQUESTS_MAX`], no further request is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_engine::LATE_REQUESTS_MAX;

/// Number of requests that wait for late answers.
#[derive(Debug, Default)]
pub(super) struct LateRequests(pub(super) AtomicUsize);

/// Permit of one request to wait for a late answer. It is given back when this is dropped.
pub(super) struct LatePermit(Arc<LateRequests>);

impl LateRequests {
    pub(super) fn take_permit(self: &Arc<Self>) -> Option<LatePermit> {
        let more = |requests: usize| (requests < LATE_REQUESTS_MAX).then_some(requests + 1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        taken.is_ok().then(|| LatePermit(self.clone()))
    }
}

impl Drop for LatePermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
