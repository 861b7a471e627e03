//! One socket to the server, and the number of requests in flight on it.
//!
//! Requests are counted by numbers: answers come in the order of the requests, so the newest answered number tells how many
//! are in flight, even if callers have dropped some of the others.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use redis::{Cmd, ErrorKind, FromRedisValue, RedisResult, ServerErrorKind, ToRedisArgs};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::eviction;
use crate::replication;
use crate::script::Script;

const IN_FLIGHT_LEN_MAX: u64 = 10_000;
/// Number of pings without an answer after which a socket is silent, and another one is tried.
const PINGS_LOST_MAX: u32 = 3;

/// One socket to the server.
pub struct Socket {
    /// Host and port of the server, or the path of its socket.
    node: String,
    redis: MultiplexedConnection,
    /// The runtime that the socket belongs to: tasks that outlive their caller run there.
    runtime: Handle,
    /// The task that reads and writes; it ends with the socket, also if the server is silent.
    driver: AbortHandle,
    sent: AtomicU64,
    answered: Arc<AtomicU64>,
    pub(super) pings_lost: AtomicU32,
    pub(super) has_answered: AtomicBool,
}

impl Socket {
    /// `answered` is the number of the newest request that was answered, as the stream of the socket sees it.
    pub(super) fn new(
        redis: MultiplexedConnection,
        driver: AbortHandle,
        answered: Arc<AtomicU64>,
        node: String,
    ) -> Self {
        Self {
            node,
            redis,
            runtime: Handle::current(),
            driver,
            sent: AtomicU64::new(0),
            answered,
            pings_lost: AtomicU32::new(0),
            has_answered: AtomicBool::new(false),
        }
    }

    /// Returns host and port of the server, or the path of its socket.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Warns of a server that may evict counters, and of one that takes writes without its replicas. No caller needs the answers, and
    /// a server that refuses INFO is usable.
    pub(super) fn warn_of_settings(self: Arc<Self>, address: String) {
        tokio::spawn(async move {
            for (section, warning) in
                [("memory", eviction::warning as fn(&str) -> _), ("replication", replication::warning)]
            {
                let info: RedisResult<String> = self.exchange(redis::cmd("INFO").arg(section)).await;
                if let Some(warning) = info.ok().as_deref().and_then(warning) {
                    tracing::warn!(store = %address, node = self.node, "{warning}");
                }
            }
        });
    }

    /// Runs a task to its end, even if its caller has gone.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    pub(super) fn is_full(&self) -> bool {
        let in_flight = self.sent.load(Ordering::Relaxed).saturating_sub(self.answered.load(Ordering::Relaxed));
        in_flight >= IN_FLIGHT_LEN_MAX
    }

    pub(super) fn is_silent(&self) -> bool {
        self.pings_lost.load(Ordering::Relaxed) >= PINGS_LOST_MAX
    }

    pub(super) async fn exchange<T: FromRedisValue>(&self, command: &Cmd) -> RedisResult<T> {
        let number = self.sent.fetch_add(1, Ordering::Relaxed) + 1;
        let answer = command.query_async(&mut self.redis.clone()).await;
        self.answered.fetch_max(number, Ordering::Relaxed);
        answer
    }

    /// Sends a command about keys that are on their way to the server: `ASKING` directly before it.
    async fn exchange_asking<T: FromRedisValue>(&self, command: Cmd) -> RedisResult<T> {
        let number = self.sent.fetch_add(2, Ordering::Relaxed) + 2;
        let mut pipeline = redis::pipe();
        // Each command has its own error: one of the pipeline would have neither its code nor its address.
        pipeline.cmd("ASKING").add_command(command).ignore_errors();
        let answers: RedisResult<(RedisResult<()>, RedisResult<T>)> =
            pipeline.query_async(&mut self.redis.clone()).await;
        self.answered.fetch_max(number, Ordering::Relaxed);
        let (asked, answer) = answers?;
        asked.and(answer)
    }

    /// Runs a script about keys that are on their way to the server if `is_passing`.
    pub(super) async fn exchange_script<T: FromRedisValue>(
        &self,
        is_passing: bool,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> RedisResult<T> {
        let exchange = async |command: Cmd| {
            if is_passing { self.exchange_asking(command).await } else { self.exchange(&command).await }
        };
        match exchange(script.by_hash(keys, args)).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                exchange(script.by_text(keys, args)).await
            }
            answer => answer,
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.driver.abort();
    }
}
