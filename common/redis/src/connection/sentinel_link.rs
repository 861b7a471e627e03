//! Link to one Sentinel, and its question for the primary.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use redis::RedisResult;
use tokio::time::timeout;
use tollgate_core::clock::Stopwatch;

use super::dialer::Login;
use super::socket::Socket;
use crate::address::HostPort;
use crate::connect_error::ConnectError;

/// Maximum time for an answer on an open link.
const ANSWER_WAIT: Duration = Duration::from_millis(300);
/// Minimum and maximum time from a failed attempt to the next one, so that the backlog of a stopped Sentinel does not fill.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Primary, as a Sentinel knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    pub(super) epoch: u64,
    pub(super) server: HostPort,
}

/// Link to one Sentinel.
#[derive(Clone)]
pub(super) struct SentinelLink {
    pub(super) address: SocketAddr,
    host: HostPort,
    socket: Option<Arc<Socket>>,
    /// True while a question is under way.
    is_asked: bool,
    /// Last attempt that failed, and the pause after it.
    failed: Option<(Stopwatch, Duration)>,
}

impl SentinelLink {
    pub(super) fn new(address: SocketAddr, host: HostPort) -> Self {
        Self { address, host, socket: None, is_asked: false, failed: None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Returns the link to be asked, unless it is asked already, or must wait after a failed attempt.
    pub(super) fn take_if_due(&mut self) -> Option<Self> {
        let has_waited = || self.failed.as_ref().is_none_or(|(since, pause)| since.elapsed() >= *pause);
        if self.is_asked || !has_waited() {
            return None;
        }
        let asked = self.clone();
        self.is_asked = true;
        Some(asked)
    }

    /// Asks for the primary, and returns the link as it is then. `wait` is the maximum time for a new link.
    pub(super) async fn ask(
        mut self,
        login: Option<Result<Login, ConnectError>>,
        wait: Duration,
        name: &str,
    ) -> (Self, Result<NamedPrimary, ConnectError>) {
        let wait = if self.is_open() { ANSWER_WAIT } else { wait };
        let asked = timeout(wait, self.try_ask(login, name)).await;
        let answer = asked.unwrap_or_else(|_| Err(ConnectError::silent(wait)));
        let pause = self.failed.take().map_or(PAUSE_MIN, |(_, pause)| (2 * pause).min(PAUSE_MAX));
        if answer.is_err() {
            (self.socket, self.failed) = (None, Some((Stopwatch::start(), pause)));
        }
        let answer = answer.map_err(|error| error.at(&format!("Sentinel {} ({})", self.host, self.address)));
        (self, answer)
    }

    async fn try_ask(
        &mut self,
        login: Option<Result<Login, ConnectError>>,
        name: &str,
    ) -> Result<NamedPrimary, ConnectError> {
        let (socket, login) = match (&self.socket, login) {
            (Some(socket), login) => (socket.clone(), login.and_then(Result::ok)),
            (None, login) => {
                let login = login.unwrap_or_else(|| Err(ConnectError::unreachable("the link was closed")))?;
                let dialed = login.dial(self.address, &self.host.host, self.host.to_string()).await;
                (Arc::new(dialed.map_err(of_sentinel)?), Some(login))
            }
        };
        let refused = |error: redis::RedisError| {
            let error = ConnectError::of_login(&error);
            of_sentinel(if let Some(login) = &login { login.refusal(error) } else { error })
        };
        // The epoch first: during a fail-over, the address may be newer than the epoch, and never older.
        let command = redis::cmd("SENTINEL").arg("MASTER").arg(name).take();
        let fields: RedisResult<HashMap<String, String>> = socket.exchange(&command).await;
        let fields = match fields {
            Err(error) if error.to_string().contains("No such master") => return Err(unknown(name)),
            fields => fields.map_err(refused)?,
        };
        let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        let command = redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name).take();
        let server: RedisResult<Option<(String, u16)>> = socket.exchange(&command).await;
        let (host, port) = server.map_err(refused)?.ok_or_else(|| unknown(name))?;
        self.socket = Some(socket);
        Ok(NamedPrimary { epoch, server: HostPort { host, port } })
    }
}

fn unknown(name: &str) -> ConnectError {
    ConnectError::refused("SENTINEL-NAME", format!("it watches no primary of the name {name}"))
}

/// Returns the same error, with the code of its remedy at a Sentinel.
fn of_sentinel(error: ConnectError) -> ConnectError {
    let code = match &*error.code {
        "COMMAND" => "NO-SENTINEL",
        "NOAUTH" | "WRONGPASS" | "NOPERM" => "SENTINEL-LOGIN",
        "NO-LOGIN" | "NO-REDIS" => "SENTINEL-TLS",
        _ => return error,
    };
    ConnectError { code: code.to_owned(), ..error }
}
