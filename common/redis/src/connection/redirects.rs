//! Redirections: answers of a node of a cluster about slots that it does not hold.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate_core::counter::StoreError;

/// Receiver of the redirections on the connections to a cluster.
pub(crate) trait Redirects: Send + Sync {
    /// A node says that the slot is at another address now. Nothing was charged.
    fn moved(&self, slot: u16, address: &str);

    /// A node says that the key is at another address already, to which its slot is on its way. Nothing was charged. Returns the
    /// answer to the request.
    fn asked(&self, address: &str) -> StoreError;

    /// A node does not serve as the cluster was told last.
    fn outdated(&self);
}

/// Returns the answer to a request that a node of a cluster has not executed because of the slot; none for another error.
pub(super) fn redirected(redirects: &dyn Redirects, error: &RedisError) -> Option<StoreError> {
    match (error.kind(), error.redirect_node()) {
        (ErrorKind::Server(ServerErrorKind::Moved), Some((address, slot))) => {
            redirects.moved(slot, address);
            Some(StoreError::Moved)
        }
        (ErrorKind::Server(ServerErrorKind::Ask), Some((address, _))) => Some(redirects.asked(address)),
        // Some of the keys are on their way.
        (ErrorKind::Server(ServerErrorKind::TryAgain), _) => Some(StoreError::Contended),
        (ErrorKind::Server(ServerErrorKind::ClusterDown), _) => {
            redirects.outdated();
            None
        }
        _ => {
            if error.is_io_error() {
                redirects.outdated();
            }
            None
        }
    }
}
