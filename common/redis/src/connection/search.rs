//! Search for the server that holds the counters: behind a path, among hosts, or by Sentinel.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::dialer::Dialer;
use super::primary;
use super::sentinels::Sentinels;
use super::socket::Socket;
use crate::address::{HostPort, RedisServers};
use crate::connect_error::ConnectError;
use crate::settings::RedisAccess;

/// Search for the server behind an address.
pub(super) struct PrimarySearch {
    dialer: Dialer,
    sentinels: Sentinels,
    /// Server of a cluster, in place of those of the address.
    member: Option<Arc<MemberAddress>>,
}

/// Address of a primary of a cluster, as the cluster told it last. It changes when a replica takes over.
#[derive(Debug, Default)]
pub(crate) struct MemberAddress(Mutex<Option<HostPort>>);

impl MemberAddress {
    pub(crate) fn get(&self) -> Option<HostPort> {
        self.0.lock().clone()
    }

    /// Sets the address; returns true if it is another one than before.
    pub(crate) fn set(&self, address: &HostPort) -> bool {
        let before = self.0.lock().replace(address.clone());
        before.is_some_and(|before| before != *address)
    }
}

impl PrimarySearch {
    pub(super) fn new(access: Arc<RedisAccess>) -> Self {
        Self { dialer: Dialer::new(access), sentinels: Sentinels::new(), member: None }
    }

    /// Search for this primary of the cluster that an address names.
    pub(super) fn of_member(access: Arc<RedisAccess>, member: Arc<MemberAddress>) -> Self {
        Self { member: Some(member), ..Self::new(access) }
    }

    /// Maximum duration of an attempt.
    pub(super) fn timeout(&self) -> Duration {
        self.dialer.timeout()
    }

    /// Returns true if the address names several servers.
    pub(super) fn has_several(&self) -> bool {
        matches!(self.dialer.servers(), RedisServers::Primary(hosts) if hosts.len() > 1)
    }

    /// Connects to the primary. Returns how Sentinels named it, if they did.
    pub(super) async fn connect(&self) -> Result<(Socket, Option<HostPort>), ConnectError> {
        let login = self.dialer.login().await?;
        if let Some(member) = &self.member {
            let untold = || ConnectError::unreachable("the cluster has not told the address of this primary yet");
            let host = member.get().ok_or_else(untold)?;
            let connected = primary::connect(&login, from_ref(&host)).await;
            return Ok((connected.map_err(|error| error.at(&host.to_string()))?, None));
        }
        match self.dialer.servers() {
            RedisServers::Unix(path) => Ok((login.dial_unix(path).await?, None)),
            RedisServers::Primary(hosts) | RedisServers::Cluster(hosts) => {
                Ok((primary::connect(&login, hosts).await?, None))
            }
            RedisServers::Sentinels(hosts, name) => {
                self.sentinels.resolve(hosts).await?;
                let named = self.sentinels.primary(&self.dialer, name).await?.server;
                let connected = primary::connect(&login, from_ref(&named)).await;
                Ok((connected.map_err(|error| error.at(&named.to_string()))?, Some(named)))
            }
        }
    }

    /// Returns the primary that Sentinels name in place of this one; none if it is the same.
    ///
    /// # Errors
    /// If no Sentinel answers.
    pub(super) async fn successor(&self, of: &HostPort) -> Result<Option<HostPort>, ConnectError> {
        let RedisServers::Sentinels(hosts, name) = self.dialer.servers() else { return Ok(None) };
        match self.sentinels.primary(&self.dialer, name).await {
            Ok(named) => Ok((named.server != *of).then_some(named.server)),
            Err(error) => {
                // Their addresses may have changed.
                self.sentinels.resolve(hosts).await?;
                Err(error)
            }
        }
    }
}
