//! Requests that the store read in time and yet found expired: one of the clocks was set, or the request shared its charge with
//! one that expired up to 2 ms earlier.
//!
//! A request expires by the store's clock, at the latest time that this clock may show at the deadline. After a step
//! forward, each request would seem expired until a ping tells the new time. But the answer tells it, too, and nothing
//! is charged, so the request is sent once more.

use std::mem;
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{ChargeResults, StoreError};

use crate::engine::Engine;
use crate::store_request::{PendingRequest, StoreRequest};

impl Engine {
    /// Gives a request another expiry if its answer says before its deadline that it has expired. Then the store's
    /// clock was set, and the answer tells its time. Returns the time until the deadline, in which the shell sends the
    /// request once more; nothing if the answer stands.
    pub fn renew(
        &self,
        now: Timestamp,
        request: &mut StoreRequest,
        answer: &Result<ChargeResults, StoreError>,
    ) -> Option<Duration> {
        let PendingRequest { charges, deadline, sent, is_renewed, .. } = &mut *request.0;
        let (Err(StoreError::Expired(_)), false) = (answer, mem::replace(is_renewed, true)) else { return None };
        let left_ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX).saturating_sub(now.ms_since(sent.at));
        if left_ms == 0 {
            return None;
        }
        self.note_time_of(sent.at, now, answer);
        let expires_at = self.store_time(now).latest.plus_ms(left_ms);
        charges.iter_mut().for_each(|charge| charge.mode = charge.mode.expiring_at(expires_at));
        Some(Duration::from_millis(left_ms))
    }
}
