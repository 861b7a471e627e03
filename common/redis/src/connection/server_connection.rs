//! State of a connection: its socket, the attempts to make one, and the pings that find out whether the server answers.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use redis::RedisError;
use tokio::sync::Mutex;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tollgate_core::clock::{Clock, Stopwatch, Timestamp};
use tollgate_core::counter::StoreError;

use super::attempt::AttemptSchedule;
use super::current_socket::CurrentSocket;
use super::redirects::{Redirects, redirected};
use super::search::{MemberAddress, PrimarySearch};
use super::socket::Socket;
use crate::address::{HostPort, RedisAddressError};
use crate::connect_error::ConnectError;
use crate::errors::ErrorLog;
use crate::remedy::{OwnKey, has_moved};
use crate::script::Script;
use crate::settings::{RedisAccess, RedisSettings};

/// Maximum time for the answer to a ping after its caller has given up.
const PING_WAIT_MAX: Duration = Duration::from_mins(1);
/// Time between two questions to the Sentinels, while there is a connection to a primary.
const SENTINEL_INTERVAL: Duration = Duration::from_millis(500);
/// Time without an answer of Sentinels that is reported.
const SENTINELS_SILENT_MAX: Duration = Duration::from_secs(3);
const NONE: [&str; 0] = [];

/// A connection to a Redis, kept up across failures of the server.
pub struct RedisConnection {
    search: PrimarySearch,
    clock: Arc<dyn Clock>,
    ping: Script,
    pub(super) errors: ErrorLog,
    socket: CurrentSocket,
    schedule: Mutex<AttemptSchedule>,
    /// Receiver of redirections; none if the server is no node of a cluster.
    redirects: Option<Weak<dyn Redirects>>,
}

impl RedisConnection {
    /// A connection to this server, made at the first [`RedisConnection::ping`]. `ping` is a script that returns the server's time
    /// in ms when it has no keys; a store gives its own script, so that a ping fails where a charge would.
    ///
    /// # Errors
    /// When the address is not that of a Redis, or a file cannot be used.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>, ping: Script) -> Result<Self, RedisAddressError> {
        let access = settings.checked_access()?;
        let errors = ErrorLog::new(access.address.to_string(), clock.clone());
        let errors = errors.with_password_from(access.password_from.clone());
        let (socket, schedule) = (CurrentSocket::default(), Mutex::default());
        Ok(Self {
            search: PrimarySearch::new(Arc::new(access)),
            clock,
            ping,
            errors,
            socket,
            schedule,
            redirects: None,
        })
    }

    /// A connection to this primary of a cluster.
    pub(crate) fn to_member(
        access: Arc<RedisAccess>,
        member: Arc<MemberAddress>,
        clock: Arc<dyn Clock>,
        ping: Script,
        redirects: Weak<dyn Redirects>,
    ) -> Self {
        let errors = ErrorLog::new(access.address.to_string(), clock.clone());
        let errors = errors.with_password_from(access.password_from.clone());
        let (socket, schedule, redirects) = (CurrentSocket::default(), Mutex::default(), Some(redirects));
        Self { search: PrimarySearch::of_member(access, member), clock, ping, errors, socket, schedule, redirects }
    }

    /// Gives the current socket up, because another server has taken the place of this one.
    pub(crate) fn leave_server(&self) {
        if let Some(socket) = self.socket.get()
            && self.socket.take_away(&socket)
        {
            self.next_attempt_is_due();
        }
    }

    /// Address of the server, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.errors.address
    }

    /// Returns the server of the current socket: host and port, or a path.
    #[must_use]
    pub fn node(&self) -> Option<String> {
        self.socket.get().map(|socket| socket.node().to_owned())
    }

    /// Returns why the server does not serve, if it has just said so or cannot be reached.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.errors.trouble()
    }

    /// The current socket, if there is one with room for a request.
    ///
    /// # Errors
    /// When there is none.
    pub fn socket(&self) -> Result<Arc<Socket>, StoreError> {
        self.socket.with_room()
    }

    /// The current socket, as [`RedisConnection::socket`]. If there is none yet, the attempt in progress or the first one is awaited.
    ///
    /// # Errors
    /// When there is none after the attempt.
    pub async fn awaited_socket(&self) -> Result<Arc<Socket>, StoreError> {
        self.socket.awaited(self.search.timeout()).await
    }

    /// The server's time. Connects if there is no socket or the socket is silent, or waits for the attempt in progress;
    /// must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn ping(self: &Arc<Self>) -> Result<Timestamp, StoreError> {
        let connection = self.clone();
        let task = match self.socket.get() {
            Some(socket) if !socket.is_silent() => {
                socket.pings_lost.fetch_add(1, Ordering::Relaxed);
                let time = async move { connection.time(&socket).await };
                tokio::spawn(async { timeout(PING_WAIT_MAX, time).await.unwrap_or(Err(StoreError::TimedOut)) })
            }
            _ => tokio::spawn(async move { connection.connect().await }),
        };
        task.await.unwrap_or(Err(StoreError::Unreachable))
    }

    /// Connects, and returns the server's time. If an attempt is in progress, waits for its end and asks its socket, because only the
    /// end shows that the server cannot be reached. Fails if it is too early for the next attempt.
    async fn connect(self: &Arc<Self>) -> Result<Timestamp, StoreError> {
        let Ok(mut schedule) = self.schedule.try_lock() else {
            self.socket.attempt_ends(self.search.timeout()).await;
            let socket = self.socket.get().filter(|socket| !socket.is_silent());
            return self.time(&socket.ok_or(StoreError::Unreachable)?).await;
        };
        let now = self.clock.now();
        if schedule.is_early(now) {
            return Err(StoreError::Unreachable);
        }
        self.socket.set_connecting(true);
        let connected = timeout(self.search.timeout(), self.open_socket()).await;
        match &connected {
            Err(_) | Ok(Err(StoreError::Refused)) => schedule.failed(self.clock.now()),
            Ok(answer) => schedule.ended(now, answer.is_ok()),
        }
        self.socket.set_connecting(false);
        // Only now, because the next attempt raises it again.
        drop(schedule);
        let silent = || ConnectError::silent(self.search.timeout());
        connected.unwrap_or_else(|_| Err(self.errors.connect_failed(&silent())))
    }

    async fn open_socket(self: &Arc<Self>) -> Result<Timestamp, StoreError> {
        let (socket, named) = self.search.connect().await.map_err(|error| self.errors.connect_failed(&error))?;
        let socket = Arc::new(socket);
        let time = self.time(&socket).await;
        // A server that refuses keeps its socket: the reason may pass.
        if matches!(time, Ok(_) | Err(StoreError::Refused)) {
            self.socket.set(socket.clone());
            if let Some(named) = named {
                tokio::spawn(watch_sentinels(Arc::downgrade(self), Arc::downgrade(&socket), named));
            }
        }
        time
    }

    async fn time(&self, socket: &Arc<Socket>) -> Result<Timestamp, StoreError> {
        let now_ms = self.run_on(socket, &self.ping, &NONE, &NONE).await?;
        socket.pings_lost.store(0, Ordering::Relaxed);
        if !socket.has_answered.swap(true, Ordering::Relaxed) {
            self.errors.connected(socket.node());
            socket.clone().warn_of_settings(self.errors.address.clone());
        }
        Ok(Timestamp::from_ms(now_ms))
    }

    pub(super) fn failed(&self, socket: &Arc<Socket>, error: &RedisError, own_key: Option<&OwnKey>) -> StoreError {
        let redirects = self.redirects.as_ref().and_then(Weak::upgrade);
        if let Some(answer) = redirects.and_then(|redirects| redirected(&*redirects, socket.node(), error)) {
            socket.pings_lost.store(0, Ordering::Relaxed);
            return answer;
        }
        // The name of the server may lead to the new primary, while this connection stays open.
        let has_moved = has_moved(error) || self.search.has_several() && error.code() == Some("NOREPLICAS");
        let is_broken = error.is_io_error() || error.is_unrecoverable_error();
        if !has_moved && !is_broken {
            socket.pings_lost.store(0, Ordering::Relaxed);
        } else if self.socket.take_away(socket) {
            if has_moved {
                self.next_attempt_is_due();
            } else {
                self.socket.set_connecting(true);
            }
        }
        self.errors.request_failed(error, own_key)
    }

    /// Plans the attempt after a server that is no primary any more. An attempt in progress makes the schedule at its end.
    fn next_attempt_is_due(&self) {
        if self.schedule.try_lock().map_or(true, |mut schedule| schedule.left(self.clock.now())) {
            self.socket.set_connecting(true);
        }
    }
}

/// Asks the Sentinels again and again, while this socket to the primary that they named is in use.
async fn watch_sentinels(connection: Weak<RedisConnection>, socket: Weak<Socket>, named: HostPort) {
    let (mut asked, mut answered) = (interval(SENTINEL_INTERVAL), Stopwatch::start());
    // A process that was suspended does not ask for all the time at once.
    asked.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        asked.tick().await;
        let (Some(connection), Some(socket)) = (connection.upgrade(), socket.upgrade()) else { return };
        // Requests in flight may keep a socket that was given up.
        if !connection.socket.is(&socket) {
            return;
        }
        match connection.search.successor(&named).await {
            Ok(None) => answered = Stopwatch::start(),
            Ok(Some(successor)) => {
                if connection.socket.take_away(&socket) {
                    let store = &connection.errors.address;
                    tracing::info!(%store, old = %named, new = %successor, "Sentinel has replaced the primary");
                    connection.next_attempt_is_due();
                }
                return;
            }
            Err(error) if answered.elapsed() > SENTINELS_SILENT_MAX => connection.errors.sentinels_failed(&error),
            Err(_) => {}
        }
    }
}
