//! The one connection to a Redis, on which all calls are pipelined.
//!
//! No call waits for a connection: it is there or it is not. Connections are made by [`Line::ping`] alone, each in a task
//! of its own, since whoever pings gives up long before a distant server could answer. What is in flight is counted by
//! numbers: answers come in the order of the questions, so the newest that was answered tells, whoever dropped the others.
//!
//! A server that is stopped keeps its connections, and answers all when it goes on: a silent connection is kept until
//! another one answers. Attempts that time out come ever more seldom, so that a stopped server's backlog does not fill.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};
use tokio::runtime::Handle;
use tollgate_core::clock::{Clock, Timestamp};

use super::codec::{Packed, Stepped};
use super::eviction;
use super::script::Script;
use super::trouble::Troubles;
use crate::store::StoreError;

/// How many questions may wait for an answer.
const IN_FLIGHT_MAX: u64 = 10_000;
/// How many of them may wait to be written.
const UNWRITTEN_LEN_MAX: usize = 1_024;
/// How long one attempt to connect may take.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// From the beginning of one attempt to that of the next, at least, and after attempts that hung at most, in ms.
const CONNECT_PAUSE_MIN_MS: u64 = 100;
const CONNECT_PAUSE_MAX_MS: u64 = 5_000;
/// After so many pings without an answer a connection is silent, and another one is tried.
const PINGS_LOST_MAX: u32 = 3;
/// How long a ping that nobody waits for any more is listened for.
const PING_MAX: Duration = Duration::from_mins(1);

pub(super) struct Line {
    client: Client,
    clock: Arc<dyn Clock>,
    pub(super) take: Script,
    pub(super) troubles: Troubles,
    current: ArcSwapOption<Connection>,
    dialing: Mutex<Dialing>,
}

pub(super) struct Connection {
    redis: MultiplexedConnection,
    /// Where it was made: what outlives its caller runs there.
    runtime: Handle,
    sent: AtomicU64,
    answered: AtomicU64,
    pings_lost: AtomicU32,
    has_answered: AtomicBool,
}

/// When the next attempt may begin.
struct Dialing {
    busy: bool,
    not_before: Timestamp,
    pause_ms: u64,
}

/// An attempt to connect, over when it is dropped.
struct Attempt {
    line: Arc<Line>,
    outcome: Outcome,
}

/// What an attempt says of the next one.
enum Outcome {
    /// It may follow soon: nobody listens, or all is well.
    Soon,
    /// It would trouble the server: this one hangs, or was sent away.
    Later,
}

impl Line {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>, take: Script, troubles: Troubles) -> Self {
        let dialing = Dialing { busy: false, not_before: Timestamp::default(), pause_ms: CONNECT_PAUSE_MIN_MS };
        Self { client, clock, take, troubles, current: ArcSwapOption::empty(), dialing: Mutex::new(dialing) }
    }

    /// Runs a step, if there is a connection with room for it.
    pub(super) async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let connection = self.current()?;
        self.run_on(&connection, script, keys, args).await
    }

    /// Asks for something that needs no step.
    pub(super) async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let connection = self.current()?;
        connection.exchange(command).await.map_err(|error| self.failed(&connection, &error))
    }

    /// The server's time. This alone makes connections; it must be called inside a tokio runtime.
    pub(super) async fn ping(self: &Arc<Self>) -> Result<Timestamp, StoreError> {
        let line = self.clone();
        let task = match self.current.load_full() {
            Some(connection) if !connection.is_silent() => {
                connection.pings_lost.fetch_add(1, Ordering::Relaxed);
                let ping = async move { line.time(&connection).await };
                tokio::spawn(async { tokio::time::timeout(PING_MAX, ping).await.unwrap_or(Err(StoreError::TimedOut)) })
            }
            _ => tokio::spawn(self.begin_attempt().ok_or(StoreError::Unreachable)?.run()),
        };
        task.await.unwrap_or(Err(StoreError::Unreachable))
    }

    /// The connection, if there is one with room for a question.
    pub(super) fn current(&self) -> Result<Arc<Connection>, StoreError> {
        let connection = self.current.load_full().ok_or(StoreError::Unreachable)?;
        if connection.in_flight() >= IN_FLIGHT_MAX { Err(StoreError::Busy) } else { Ok(connection) }
    }

    /// Runs a step on this connection.
    pub(super) async fn run_on<T: FromRedisValue>(
        &self,
        connection: &Arc<Connection>,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let answer = match connection.exchange(&script.by_hash(keys, args)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                connection.exchange(&script.by_text(keys, args)).await
            }
            answer => answer,
        };
        answer.map_err(|error| self.failed(connection, &error))
    }

    /// A step without counters: it says no more than the time, and fails where a charge would.
    async fn time(self: &Arc<Self>, connection: &Arc<Connection>) -> Result<Timestamp, StoreError> {
        let reply: Vec<u8> = self.run_on(connection, &self.take, &[] as &[&str], &[] as &[Packed]).await?;
        connection.pings_lost.store(0, Ordering::Relaxed);
        if !connection.has_answered.swap(true, Ordering::Relaxed) {
            self.greet(connection.clone());
        }
        Stepped::read(&reply).map(|stepped| stepped.now).ok_or_else(|| self.troubles.nonsense())
    }

    /// What is done once on each connection, when it first answers.
    fn greet(self: &Arc<Self>, connection: Arc<Connection>) {
        self.troubles.forget();
        tracing::info!(store = %self.troubles.address(), "connected to Redis");
        let line = self.clone();
        // In a task of its own: nobody need wait for the answer, and a server that keeps it to itself is none the worse.
        tokio::spawn(async move {
            let memory: RedisResult<String> = connection.exchange(redis::cmd("INFO").arg("memory")).await;
            if let Some(warning) = memory.ok().as_deref().and_then(eviction::warning) {
                tracing::warn!(store = %line.troubles.address(), "{warning}");
            }
        });
    }

    fn failed(&self, connection: &Arc<Connection>, error: &redis::RedisError) -> StoreError {
        if error.is_io_error() || error.is_unrecoverable_error() {
            self.current.compare_and_swap(&Some(connection.clone()), None);
        } else {
            connection.pings_lost.store(0, Ordering::Relaxed);
        }
        self.troubles.answered(error)
    }

    fn begin_attempt(self: &Arc<Self>) -> Option<Attempt> {
        let now = self.clock.now();
        let mut dialing = self.dialing.lock();
        if dialing.busy || now < dialing.not_before {
            return None;
        }
        dialing.busy = true;
        dialing.not_before = now.plus_ms(CONNECT_PAUSE_MIN_MS);
        Some(Attempt { line: self.clone(), outcome: Outcome::Later })
    }
}

impl Attempt {
    async fn run(mut self) -> Result<Timestamp, StoreError> {
        let line = self.line.clone();
        let settings = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(UNWRITTEN_LEN_MAX);
        let connect = async {
            let redis = line.client.get_multiplexed_async_connection_with_config(&settings).await;
            let connection = Arc::new(Connection::new(redis.map_err(|error| line.troubles.not_connected(&error))?));
            let time = line.time(&connection).await;
            // One that refuses is kept: it says why, and may change its mind.
            if matches!(time, Ok(_) | Err(StoreError::Refused)) {
                line.current.store(Some(connection));
            }
            time
        };
        let Ok(connected) = tokio::time::timeout(CONNECT_MAX, connect).await else {
            return Err(StoreError::Unreachable);
        };
        if connected != Err(StoreError::Refused) {
            self.outcome = Outcome::Soon;
        }
        connected
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut dialing = self.line.dialing.lock();
        dialing.busy = false;
        match self.outcome {
            Outcome::Soon => dialing.pause_ms = CONNECT_PAUSE_MIN_MS,
            Outcome::Later => {
                dialing.not_before = self.line.clock.now().plus_ms(dialing.pause_ms);
                dialing.pause_ms = (2 * dialing.pause_ms).min(CONNECT_PAUSE_MAX_MS);
            }
        }
    }
}

impl Connection {
    fn new(redis: MultiplexedConnection) -> Self {
        Self {
            redis,
            runtime: Handle::current(),
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            pings_lost: AtomicU32::new(0),
            has_answered: AtomicBool::new(false),
        }
    }

    /// Runs something to its end, whoever waits for it.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    fn in_flight(&self) -> u64 {
        self.sent.load(Ordering::Relaxed).saturating_sub(self.answered.load(Ordering::Relaxed))
    }

    fn is_silent(&self) -> bool {
        self.pings_lost.load(Ordering::Relaxed) >= PINGS_LOST_MAX
    }

    async fn exchange<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = command.query_async(&mut self.redis.clone()).await;
        self.answered.fetch_max(number, Ordering::Relaxed);
        answer
    }
}
