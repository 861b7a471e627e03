//! The connection to a Redis: one socket at a time, replaced when it breaks, on which all requests are pipelined.
//!
//! Only [`Connection::ping`] connects, each attempt in a task of its own ([`attempt`]), because a pinging caller gives
//! up long before a distant server could answer. While an attempt is in progress, before the first one, and after the loss of a
//! socket, nothing says that the server cannot be reached: [`Connection::awaited_socket`] waits for the end of the attempt. Otherwise
//! there is a socket or there is none.
//!
//! A server that is no primary any more, or loads its data, keeps its sockets, too, and refuses all requests. Its socket is given
//! up, and the next one resolves the server's name again, after a pause that grows while the name leads to such a server.
//!
//! A stopped server keeps its sockets and answers everything when it continues, so a silent socket is kept until another
//! one answers.

mod socket;
mod attempt;
mod capped_stream;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisError, RedisResult, ToRedisArgs};
use tokio::sync::{Mutex, watch};
use tokio::time::timeout;
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::StoreError;

use crate::errors::ErrorLog;
use crate::eviction;
use crate::remedy::{OwnKey, has_moved};
use crate::script::Script;
use crate::settings::{RedisAddressError, RedisSettings};
use attempt::AttemptSchedule;
use capped_stream::CappedStream;

pub use socket::Socket;

/// Maximum time for which the answer to a ping is awaited after its caller has given up.
const PING_WAIT_MAX: Duration = Duration::from_mins(1);
/// Maximum duration of an attempt to connect.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Maximum number of requests that wait to be written.
const UNWRITTEN_LEN_MAX: usize = 1_024;
const NONE: [&str; 0] = [];

/// A connection to a Redis, kept up across failures of the server.
pub struct Connection {
    client: Client,
    clock: Arc<dyn Clock>,
    ping: Script,
    errors: ErrorLog,
    socket: ArcSwapOption<Socket>,
    schedule: Mutex<AttemptSchedule>,
    /// True before the first attempt to connect, while one is in progress, and from the loss of a socket until the next one ends.
    is_connecting: watch::Sender<bool>,
}

impl Connection {
    /// A connection to this server, made at the first [`Connection::ping`]. `ping` is a script that returns the server's time
    /// in ms when it has no keys; a store gives its own script, so that a ping fails where a charge would.
    ///
    /// # Errors
    /// When the address is not that of a Redis.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>, ping: Script) -> Result<Self, RedisAddressError> {
        let (client, address) = settings.client()?;
        let errors = ErrorLog::new(address, clock.clone());
        let (socket, schedule, is_connecting) = (ArcSwapOption::empty(), Mutex::default(), watch::Sender::new(true));
        Ok(Self { client, clock, ping, errors, socket, schedule, is_connecting })
    }

    /// Address of the server, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.errors.address
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
        let socket = self.socket.load_full().ok_or(StoreError::Unreachable)?;
        if socket.is_full() { Err(StoreError::Busy) } else { Ok(socket) }
    }

    /// The current socket, as [`Connection::socket`]. If there is none yet, the attempt in progress or the first one is
    /// awaited, at most as long as an attempt may take: the caller has a deadline of its own.
    ///
    /// # Errors
    /// When there is none after the attempt.
    pub async fn awaited_socket(&self) -> Result<Arc<Socket>, StoreError> {
        match self.socket() {
            Err(StoreError::Unreachable) if *self.is_connecting.borrow() => {
                self.connecting_ends().await;
                self.socket()
            }
            socket => socket,
        }
    }

    async fn connecting_ends(&self) {
        let mut is_connecting = self.is_connecting.subscribe();
        let _ = timeout(CONNECT_MAX, is_connecting.wait_for(|is_connecting| !is_connecting)).await;
    }

    /// Runs a script on the current socket.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let socket = self.socket()?;
        self.run_on(&socket, script, keys, args).await
    }

    /// Runs a script on this socket: requests on one socket run in the order of their first polls.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn run_on<T: FromRedisValue>(
        &self,
        socket: &Arc<Socket>,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let answer = socket.exchange_script(script, keys, args).await;
        answer.map_err(|error| self.failed(socket, &error, None))
    }

    /// Runs a script on a key that holds no counter.
    pub(crate) async fn run_at<T: FromRedisValue>(
        &self,
        key: &OwnKey,
        script: &Script,
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let socket = self.socket()?;
        let answer = socket.exchange_script(script, &[&*key.name], args).await;
        answer.map_err(|error| self.failed(&socket, &error, Some(key)))
    }

    /// Sends a command that needs no script.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn request<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let socket = self.socket()?;
        socket.exchange(command).await.map_err(|error| self.failed(&socket, &error, None))
    }

    /// Sends a command that needs no script, about a key that holds no counter.
    pub(crate) async fn request_at<T: FromRedisValue>(&self, key: &OwnKey, command: &Cmd) -> Result<T, StoreError> {
        let socket = self.socket()?;
        socket.exchange(command).await.map_err(|error| self.failed(&socket, &error, Some(key)))
    }

    /// The error for an answer to a script that does not have the form of its answers; it is logged.
    pub fn answer_unreadable(&self) -> StoreError {
        self.errors.log("UNREADABLE-ANSWER", "the answer to a script cannot be read", StoreError::AnswerLost)
    }

    /// The error for a foreign value, which has passed the checks of a script; it is logged.
    pub fn value_unreadable(&self, key: &str) -> StoreError {
        self.errors.log("UNREADABLE", &format!("UNREADABLE {key}"), StoreError::Unreadable)
    }

    /// Logs that another digest key than that of this process holds the region, by the claim under this key.
    pub fn other_digest_key(&self, claim: &str) {
        self.errors.other_digest_key(claim);
    }

    /// The error for a foreign value under a key that holds no counter, which Redis took for one of the right type; it
    /// is logged.
    pub(crate) fn own_value_unreadable(&self, key: &OwnKey) -> StoreError {
        self.errors.foreign_value(key, "a field cannot be read")
    }

    /// The server's time. Connects if there is no socket or the socket is silent, or waits for the attempt in progress;
    /// must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn ping(self: &Arc<Self>) -> Result<Timestamp, StoreError> {
        let connection = self.clone();
        let task = match self.socket.load_full() {
            Some(socket) if !socket.is_silent() => {
                socket.pings_lost.fetch_add(1, Ordering::Relaxed);
                let time = async move { connection.time(&socket).await };
                tokio::spawn(async { timeout(PING_WAIT_MAX, time).await.unwrap_or(Err(StoreError::TimedOut)) })
            }
            _ => tokio::spawn(async move { connection.connect().await }),
        };
        task.await.unwrap_or(Err(StoreError::Unreachable))
    }

    /// Connects, and returns the server's time. If an attempt is in progress, waits for its end and asks its socket,
    /// because only the end shows that the server cannot be reached. Fails if it is too early for the next attempt.
    async fn connect(&self) -> Result<Timestamp, StoreError> {
        let Ok(mut schedule) = self.schedule.try_lock() else {
            self.connecting_ends().await;
            let socket = self.socket.load_full().filter(|socket| !socket.is_silent());
            return self.time(&socket.ok_or(StoreError::Unreachable)?).await;
        };
        let now = self.clock.now();
        if schedule.is_early(now) {
            return Err(StoreError::Unreachable);
        }
        self.is_connecting.send_replace(true);
        let connected = timeout(CONNECT_MAX, self.open_socket()).await;
        match &connected {
            Err(_) | Ok(Err(StoreError::Refused)) => schedule.failed(self.clock.now()),
            Ok(answer) => schedule.ended(now, answer.is_ok()),
        }
        // Before the lock is released: the next attempt raises it again.
        self.is_connecting.send_replace(false);
        drop(schedule);
        connected.unwrap_or(Err(StoreError::Unreachable))
    }

    async fn open_socket(&self) -> Result<Timestamp, StoreError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(UNWRITTEN_LEN_MAX);
        let socket = Arc::new(self.handshake(config).await.map_err(|error| self.errors.connect_failed(&error))?);
        let time = self.time(&socket).await;
        // A server that refuses keeps its socket: the reason may pass.
        if matches!(time, Ok(_) | Err(StoreError::Refused)) {
            self.socket.store(Some(socket));
        }
        time
    }

    async fn handshake(&self, config: AsyncConnectionConfig) -> RedisResult<Socket> {
        let (info, answered) = (self.client.get_connection_info(), Arc::<AtomicU64>::default());
        let stream = CappedStream::connect(info, answered.clone()).await?;
        let (redis, driver) = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config).await?;
        Ok(Socket::new(redis, tokio::spawn(driver).abort_handle(), answered))
    }

    async fn time(&self, socket: &Arc<Socket>) -> Result<Timestamp, StoreError> {
        let now_ms = self.run_on(socket, &self.ping, &NONE, &NONE).await?;
        socket.pings_lost.store(0, Ordering::Relaxed);
        if !socket.has_answered.swap(true, Ordering::Relaxed) {
            self.errors.connected();
            let (socket, address) = (socket.clone(), self.errors.address.clone());
            // A task of its own: no caller needs the answer, and a server that refuses INFO is usable.
            tokio::spawn(async move {
                let memory: RedisResult<String> = socket.exchange(redis::cmd("INFO").arg("memory")).await;
                if let Some(warning) = memory.ok().as_deref().and_then(eviction::warning) {
                    tracing::warn!(store = %address, "{warning}");
                }
            });
        }
        Ok(Timestamp::from_ms(now_ms))
    }

    fn failed(&self, socket: &Arc<Socket>, error: &RedisError, own_key: Option<&OwnKey>) -> StoreError {
        // The name of the server may lead to the new primary, while this connection stays open.
        let has_moved = has_moved(error);
        if error.is_io_error() || error.is_unrecoverable_error() || has_moved {
            let current = self.socket.compare_and_swap(&Some(socket.clone()), None);
            if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, socket)) {
                // Calls do not wait through a pause. While an attempt is in progress, its end makes the schedule.
                if !has_moved || self.schedule.try_lock().map_or(true, |mut schedule| schedule.left(self.clock.now())) {
                    self.is_connecting.send_replace(true);
                }
            }
        } else {
            socket.pings_lost.store(0, Ordering::Relaxed);
        }
        self.errors.request_failed(error, own_key)
    }
}
