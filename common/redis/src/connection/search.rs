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

    /// Returns true if the address names several servers.
    pub(super) fn has_several(&self) -> bool {
        matches!(self.dialer.servers(), RedisServers::Primary(hosts) if hosts.len() > 1)
    }

    /// Connects to the primary. Returns how Sentinels named it, if they did.
    pub(super) async fn connect(&self) -> Result<(Socket, Option<HostPort>), ConnectError> {
        let login = self.dialer.login().await?;
        match self.dialer.servers() {
            RedisServers::Unix(path) => Ok((login.dial_unix(path).await?, None)),
            RedisServers::Primary(hosts) => Ok((primary::connect(&login, hosts).await?, None)),
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
