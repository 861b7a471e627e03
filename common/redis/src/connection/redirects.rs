//! Redirections: answers of a node of a cluster about slots that it does not hold.

use redis::{ErrorKind, RedisError, ServerErrorKind};
use tollgate_core::counter::StoreError;

use crate::address::HostPort;

/// Receiver of the redirections on the connections to a cluster.
pub(crate) trait Redirects: Send + Sync {
    /// A node says that the slot is at another address now. Nothing was charged.
    fn moved(&self, slot: u16, address: HostPort);

    /// A node says that the key is at another address already, to which its slot is on its way. Nothing was charged. Returns the
    /// answer to the request.
    fn asked(&self, address: HostPort) -> StoreError;

    /// A node does not serve as the cluster was told last.
    fn outdated(&self);
}

/// Returns the answer to a request that this node of a cluster has not executed because of the slot; none for another error.
pub(super) fn redirected(redirects: &dyn Redirects, node: &str, error: &RedisError) -> Option<StoreError> {
    let target = error.redirect_node().and_then(|(address, slot)| Some((told_address(node, address)?, slot)));
    match (error.kind(), target) {
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

/// Returns the address in a redirection of this node: `host:port`, without brackets around an IPv6 address. A node that does not know
/// the host of the other one tells none; it is its own.
fn told_address(node: &str, address: &str) -> Option<HostPort> {
    let (host, port) = address.rsplit_once(':')?;
    let host = if host.is_empty() { node.rsplit_once(':')?.0 } else { host };
    Some(HostPort { host: host.trim_matches(['[', ']']).to_owned(), port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirection_names_a_host_of_any_form() {
        for (address, host) in [("10.0.0.1:7", "10.0.0.1"), ("::1:7", "::1"), (":7", "a"), ("b.c:7", "b.c")] {
            assert_eq!(told_address("a:6379", address), Some(HostPort { host: host.to_owned(), port: 7 }), "{address}");
        }
        assert_eq!(told_address("[::1]:6379", ":7").expect("an address").host, "::1");
        assert_eq!(told_address("a:6379", "b"), None);
    }
}
