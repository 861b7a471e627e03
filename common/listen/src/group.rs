//! Sockets of one process: they share the cap on connections, the timeouts and the certificates.
//!
//! Descriptors belong to the process, so a cap for each address would let clients of two addresses take all of them.

use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::connections::Connections;
use crate::listen_settings::ListenSettings;
use crate::tls::Tls;

/// Descriptors that are left for files, stores and the bus.
const DESCRIPTORS_RESERVED: u64 = 128;

/// Caps and certificates of the sockets of a process.
#[derive(Clone)]
pub struct ListenGroup {
    pub(crate) settings: ListenSettings,
    pub(crate) connections: Arc<Connections>,
    pub(crate) tls: Option<Tls>,
}

impl ListenGroup {
    /// Returns a group without sockets. TLS is for its TCP sockets.
    #[must_use]
    pub fn new(settings: ListenSettings, tls: Option<Tls>) -> Self {
        let max = within_descriptors(settings.connections_max);
        Self { settings, connections: Arc::new(Connections::new(max)), tls }
    }

    /// Returns the TLS of the TCP sockets.
    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Returns the group with a cap of its own, so that clients of its other sockets do not keep those of this one out.
    #[must_use]
    pub fn apart(&self, connections_max: usize) -> Self {
        Self { connections: Arc::new(Connections::new(connections_max)), ..self.clone() }
    }
}

/// Returns the cap on connections that the limit of open files has room for. That limit is raised as far as the process may.
fn within_descriptors(connections_max: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let descriptors = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let Some(descriptors) = descriptors else { return connections_max };
    let room = usize::try_from(descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(1)).unwrap_or(usize::MAX);
    if room < connections_max {
        tracing::warn!(
            connections = room,
            "the limit of {descriptors} open files has room for fewer connections than --connections-max {connections_max}; raise it (ulimit -n, LimitNOFILE=), or lower --connections-max"
        );
    }
    room.min(connections_max)
}
