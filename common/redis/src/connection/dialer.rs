//! Connections to single servers: address, TLS, login, and the role of the server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult, Value};
use tokio::time::timeout;

use super::capped_stream::CappedStream;
use super::server_stream::{self, RedisTls, ServerStream};
use super::socket::Socket;
use crate::access::RedisCredentials;
use crate::address::RedisServers;
use crate::connect_error::ConnectError;
use crate::settings::RedisAccess;

/// Maximum number of requests that wait to be written.
const UNWRITTEN_LEN_MAX: usize = 1_024;

/// Text of the error when a server refuses the certificate of the client, after the handshake.
const TLS_ALERT: &str = "received fatal alert";

/// Role of a server, as it tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ServerRole {
    Primary,
    /// Replica of this primary.
    Replica(String),
    Sentinel,
    /// The server does not tell it, as behind a proxy, or for a user without the right.
    Untold,
}

/// Files and passwords of one attempt to connect, read at its beginning.
#[derive(Clone)]
pub(super) struct Login {
    info: RedisConnectionInfo,
    tls: Option<Arc<RedisTls>>,
    /// Maximum time for the handshake: a server without TLS may wait for more bytes.
    handshake_timeout: Duration,
}

/// Connections to the servers of an address.
pub(super) struct Dialer {
    access: RedisAccess,
}

impl Dialer {
    pub(super) fn new(access: RedisAccess) -> Self {
        Self { access }
    }

    pub(super) fn servers(&self) -> &RedisServers {
        &self.access.address.servers
    }

    pub(super) fn timeout(&self) -> Duration {
        self.access.connect_timeout
    }

    /// Reads the login for the servers that hold the counters.
    pub(super) fn login(&self) -> Result<Login, ConnectError> {
        self.read_login(&self.access.credentials, self.access.address.database)
    }

    /// Reads the login for the Sentinels.
    pub(super) fn sentinel_login(&self) -> Result<Login, ConnectError> {
        self.read_login(&self.access.sentinel_credentials, 0)
    }

    fn read_login(&self, credentials: &RedisCredentials, database: i64) -> Result<Login, ConnectError> {
        let unusable = |why: String| ConnectError::refused("FILE", why);
        let info = credentials.login(database).map_err(unusable)?;
        let handshake_timeout = self.access.connect_timeout / 2;
        Ok(Login { info, tls: self.tls().map_err(unusable)?, handshake_timeout })
    }

    #[cfg(feature = "tls")]
    fn tls(&self) -> Result<Option<Arc<RedisTls>>, String> {
        self.access.address.is_tls.then(|| self.access.tls.load().map(Arc::new)).transpose()
    }

    #[cfg(not(feature = "tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with TLS")]
    fn tls(&self) -> Result<Option<Arc<RedisTls>>, String> {
        Ok(None)
    }
}

impl Login {
    /// Connects to this address of a host, and logs in.
    pub(super) async fn dial(&self, address: SocketAddr, host: &str, node: String) -> Result<Socket, ConnectError> {
        let stream = server_stream::tcp(address).await?;
        let stream = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let handshake = timeout(self.handshake_timeout, server_stream::handshake(tls, host, stream)).await;
                let silent =
                    || ConnectError { code: "TLS-NONE".to_owned(), ..ConnectError::silent(self.handshake_timeout) };
                handshake.unwrap_or_else(|_| Err(silent()))?
            }
        };
        self.log_in(stream, node).await
    }

    /// Connects to a Unix socket, and logs in.
    pub(super) async fn dial_unix(&self, path: &Path) -> Result<Socket, ConnectError> {
        self.log_in(server_stream::unix(path).await?, path.display().to_string()).await
    }

    async fn log_in(&self, stream: Box<dyn ServerStream>, node: String) -> Result<Socket, ConnectError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(UNWRITTEN_LEN_MAX);
        let answered = Arc::<AtomicU64>::default();
        let stream = CappedStream::new(stream, answered.clone());
        // The first answer to a login may be that of a server in protected mode, which the name of the library would take.
        let info = self.info.clone().set_skip_set_lib_name();
        match MultiplexedConnection::new_with_config(&info, stream, config).await {
            Ok((redis, driver)) => Ok(Socket::new(redis, tokio::spawn(driver).abort_handle(), answered, node)),
            Err(error) => Err(self.refusal(ConnectError::of_login(&error))),
        }
    }

    /// Asks a server for its role.
    pub(super) async fn role(&self, socket: &Socket) -> Result<ServerRole, ConnectError> {
        let answer: RedisResult<Vec<Value>> = socket.exchange(&redis::cmd("ROLE")).await;
        match answer {
            Ok(fields) => Ok(role(&fields)),
            Err(error) if error.is_io_error() || error.is_unrecoverable_error() => {
                Err(self.refusal(ConnectError::of_login(&error)))
            }
            Err(error) => match ConnectError::of_login(&error) {
                refusal if matches!(&*refusal.code, "NOAUTH" | "DENIED" | "NO-REDIS" | "TOO-LONG") => Err(refusal),
                _ => Ok(ServerRole::Untold),
            },
        }
    }

    /// The error of a login. A server that wants a certificate says so after the handshake, and may only close the connection.
    fn refusal(&self, error: ConnectError) -> ConnectError {
        let is_asked = || self.tls.as_deref().is_some_and(server_stream::lacks_certificate);
        if error.code == "NO-LOGIN" && (error.text.contains(TLS_ALERT) || is_asked()) {
            return ConnectError::refused("TLS-CLIENT", error.text);
        }
        error
    }
}

fn role(fields: &[Value]) -> ServerRole {
    let text = |index: usize| match fields.get(index) {
        Some(Value::BulkString(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        Some(Value::SimpleString(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        _ => String::new(),
    };
    match &*text(0) {
        "master" => ServerRole::Primary,
        "slave" => ServerRole::Replica(format!("{}:{}", text(1), text(2))),
        "sentinel" => ServerRole::Sentinel,
        _ => ServerRole::Untold,
    }
}
