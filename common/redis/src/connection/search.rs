//! Search for the server that holds the counters: behind a path, among hosts, or by Sentinel.

use std::slice::from_ref;
use std::time::Duration;

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
}

impl PrimarySearch {
    pub(super) fn new(access: RedisAccess) -> Self {
        Self { dialer: Dialer::new(access), sentinels: Sentinels::default() }
    }

    /// Maximum duration of an attempt.
    pub(super) fn timeout(&self) -> Duration {
        self.dialer.timeout()
    }

    /// Connects to the primary. Returns the epoch in which Sentinels named it, if they did.
    pub(super) async fn connect(&self) -> Result<(Socket, Option<u64>), ConnectError> {
        let login = self.dialer.login()?;
        match self.dialer.servers() {
            RedisServers::Unix(path) => Ok((login.dial_unix(path).await?, None)),
            RedisServers::Primary(hosts) => Ok((primary::connect(&login, hosts).await?, None)),
            RedisServers::Sentinels(hosts, name) => {
                let named = self.sentinels.primary(&self.dialer.sentinel_login()?, hosts, name).await?;
                let connected = primary::connect(&login, from_ref(&named.server)).await;
                let socket = connected.map_err(|error| error.at(&named.server.to_string()))?;
                Ok((socket, Some(named.epoch)))
            }
        }
    }

    /// Returns the primary that Sentinels name in an epoch after this one, if it is another node. None if they do not answer.
    pub(super) async fn successor(&self, node: &str, epoch: u64) -> Option<HostPort> {
        let RedisServers::Sentinels(hosts, name) = self.dialer.servers() else { return None };
        let named = self.sentinels.primary(&self.dialer.sentinel_login().ok()?, hosts, name).await.ok()?;
        (named.epoch > epoch && named.server.to_string() != node).then_some(named.server)
    }
}
