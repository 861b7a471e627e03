//! Access to the limits that the store of a region holds for the counters of global rules.

use std::future::Future;
use std::sync::Arc;

use super::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};
use crate::clock::Timestamp;
use crate::counter::{CounterId, StoreError};

/// Store of a region's limits: the store that charges its counters.
pub trait LimitStore: Send + Sync + 'static {
    /// Writes the limit of a counter of this rule. The store decides by [`StoredLimit::after`], and keeps the limit for a day. Returns
    /// the store's time and its answer.
    fn write_limit(
        &self,
        rule: &str,
        counter: CounterId,
        write: &LimitWrite,
    ) -> impl Future<Output = Result<(Timestamp, LimitAnswer), StoreError>> + Send;

    /// Writes the floor of all counters of a rule; the store decides by [`StoredLimit::after`]. Returns the store's time and the
    /// floor in force.
    fn write_floor(
        &self,
        rule: &str,
        write: &LimitWrite,
    ) -> impl Future<Output = Result<(Timestamp, StoredLimit), StoreError>> + Send;

    /// Returns the store's time.
    fn time(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send;
}

impl<S: LimitStore> LimitStore for Arc<S> {
    fn write_limit(
        &self,
        rule: &str,
        counter: CounterId,
        write: &LimitWrite,
    ) -> impl Future<Output = Result<(Timestamp, LimitAnswer), StoreError>> + Send {
        (**self).write_limit(rule, counter, write)
    }

    fn write_floor(
        &self,
        rule: &str,
        write: &LimitWrite,
    ) -> impl Future<Output = Result<(Timestamp, StoredLimit), StoreError>> + Send {
        (**self).write_floor(rule, write)
    }

    fn time(&self) -> impl Future<Output = Result<Timestamp, StoreError>> + Send {
        (**self).time()
    }
}
