//! Functions that threads and tasks call: a waker, and the receiver of published rules.

use std::sync::Arc;
use std::task::Wake;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

/// Receiver of published rules, with the time at which the bus appended them; a store knows none.
pub(crate) type RulesListener = Arc<dyn Fn(Generation, Option<Timestamp>, Published) + Send + Sync>;

pub(super) struct WakeFn<F>(pub(super) F);

impl<F: Fn() + Send + Sync + 'static> Wake for WakeFn<F> {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}
