//! Attempts to connect: at most one at a time, and at growing intervals while they time out, so that the backlog of a stopped
//! server does not fill.

use std::sync::Arc;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

use super::{Connection, Socket};

/// Maximum number of requests that wait to be written.
const UNWRITTEN_LEN_MAX: usize = 1_024;
/// Maximum time of one attempt.
const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Minimum time from the beginning of one attempt to that of the next.
const CONNECT_PAUSE_MIN_MS: u64 = 100;
/// Maximum time between attempts that time out.
const CONNECT_PAUSE_MAX_MS: u64 = 5_000;

/// Schedule of the attempts.
pub(super) struct AttemptSchedule {
    in_progress: bool,
    not_before: Timestamp,
    pause_ms: u64,
}

/// An attempt to connect; it ends when it is dropped.
pub(super) struct ConnectAttempt {
    connection: Arc<Connection>,
    /// True if the next attempt waits for a growing pause, because this one timed out or was refused.
    backs_off: bool,
}

impl Default for AttemptSchedule {
    fn default() -> Self {
        Self { in_progress: false, not_before: Timestamp::default(), pause_ms: CONNECT_PAUSE_MIN_MS }
    }
}

impl ConnectAttempt {
    /// Begins an attempt, unless it is too early for one.
    pub(super) fn begin(connection: Arc<Connection>) -> Option<Self> {
        let now = connection.clock.now();
        let mut schedule = connection.schedule.lock();
        if schedule.in_progress || now < schedule.not_before {
            return None;
        }
        schedule.in_progress = true;
        schedule.not_before = now.plus_ms(CONNECT_PAUSE_MIN_MS);
        drop(schedule);
        Some(Self { connection, backs_off: true })
    }

    /// Connects. Returns the server's time.
    pub(super) async fn run(mut self) -> Result<Timestamp, StoreError> {
        let connection = self.connection.clone();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(UNWRITTEN_LEN_MAX);
        let connect = async {
            let redis = connection.client.get_multiplexed_async_connection_with_config(&config).await;
            let socket = Arc::new(Socket::new(redis.map_err(|error| connection.errors.connect_failed(&error))?));
            let time = connection.time(&socket).await;
            // A server that refuses keeps its socket: the reason may pass.
            if matches!(time, Ok(_) | Err(StoreError::Refused)) {
                connection.socket.store(Some(socket));
            }
            time
        };
        let Ok(connected) = tokio::time::timeout(CONNECT_MAX, connect).await else {
            return Err(StoreError::Unreachable);
        };
        if connected != Err(StoreError::Refused) {
            // No server listens, or this attempt succeeded.
            self.backs_off = false;
        }
        connected
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        let mut schedule = self.connection.schedule.lock();
        schedule.in_progress = false;
        if self.backs_off {
            schedule.not_before = self.connection.clock.now().plus_ms(schedule.pause_ms);
            schedule.pause_ms = (2 * schedule.pause_ms).min(CONNECT_PAUSE_MAX_MS);
        } else {
            schedule.pause_ms = CONNECT_PAUSE_MIN_MS;
        }
    }
}
