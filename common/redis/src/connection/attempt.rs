//! Attempts to connect: at most one at a time, and at growing intervals while they time out, so that the backlog of a
//! stopped server does not fill.

use std::sync::Arc;
use std::time::Duration;

use redis::AsyncConnectionConfig;
use tokio::time::timeout;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

use super::{Connection, Socket};

/// Maximum number of requests that wait to be written.
const UNWRITTEN_LEN_MAX: usize = 1_024;
pub(super) const CONNECT_MAX: Duration = Duration::from_secs(1);
/// Minimum time from the beginning of one attempt to that of the next.
const CONNECT_PAUSE_MIN_MS: u64 = 100;
/// Maximum time between attempts that time out: a server that is back is used within a second.
const CONNECT_PAUSE_MAX_MS: u64 = 500;

/// Schedule that is locked while an attempt is in progress.
#[derive(Default)]
pub(super) struct AttemptSchedule {
    not_before: Timestamp,
    pause_ms: u64,
}

/// Connects, and returns the server's time. If an attempt is in progress, waits for its end and asks its socket,
/// because only the end shows that the server cannot be reached. Fails if it is too early for the next attempt.
pub(super) async fn connect(connection: Arc<Connection>) -> Result<Timestamp, StoreError> {
    let Ok(mut schedule) = connection.schedule.try_lock() else {
        connection.connecting_ends().await;
        let socket = connection.socket.load_full().filter(|socket| !socket.is_silent());
        return connection.time(&socket.ok_or(StoreError::Unreachable)?).await;
    };
    let now = connection.clock.now();
    if schedule.not_before > now {
        return Err(StoreError::Unreachable);
    }
    connection.is_connecting.send_replace(true);
    let connected = timeout(CONNECT_MAX, open_socket(&connection)).await;
    if matches!(connected, Err(_) | Ok(Err(StoreError::Refused))) {
        let pause_ms = schedule.pause_ms.max(CONNECT_PAUSE_MIN_MS);
        schedule.not_before = connection.clock.now().plus_ms(pause_ms);
        schedule.pause_ms = (2 * pause_ms).min(CONNECT_PAUSE_MAX_MS);
    } else {
        // No server listens, or this attempt succeeded. A connection that is lost soon is replaced at once.
        let pause_ms = if matches!(connected, Ok(Ok(_))) { 0 } else { CONNECT_PAUSE_MIN_MS };
        *schedule = AttemptSchedule { not_before: now.plus_ms(pause_ms), pause_ms: 0 };
    }
    // Before the lock is released: the next attempt raises it again.
    connection.is_connecting.send_replace(false);
    drop(schedule);
    connected.unwrap_or(Err(StoreError::Unreachable))
}

async fn open_socket(connection: &Arc<Connection>) -> Result<Timestamp, StoreError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(None)
        .set_response_timeout(None)
        .set_pipeline_buffer_size(UNWRITTEN_LEN_MAX);
    let redis = connection.client.get_multiplexed_async_connection_with_config(&config).await;
    let socket = Arc::new(Socket::new(redis.map_err(|error| connection.errors.connect_failed(&error))?));
    let time = connection.time(&socket).await;
    // A server that refuses keeps its socket: the reason may pass.
    if matches!(time, Ok(_) | Err(StoreError::Refused)) {
        connection.socket.store(Some(socket));
    }
    time
}
