//! Connections to single servers: address, TLS, login, and the role of the server.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisConnectionInfo, RedisResult, Value};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::capped_stream::CappedStream;
use super::server_stream::{self, RedisTls, ServerStream};
use super::socket::Socket;
use crate::address::RedisServers;
use crate::connect_error::ConnectError;
use crate::settings::RedisAccess;

/// Maximum number of requests that wait to be written.
const UNWRITTEN_LEN_MAX: usize = 1_024;

/// Text of the error when a server ends TLS after the handshake, before the name of the reason.
const TLS_ALERT: &str = "received fatal alert: ";
/// Reasons that concern the certificate of the client.
const CERTIFICATE_ALERTS: [&str; 5] =
    ["Certificate", "BadCertificate", "UnknownCA", "UnsupportedCertificate", "AccessDenied"];
/// Maximum time for the answer to the question for the role.
const ROLE_ANSWER_WAIT: Duration = Duration::from_millis(300);

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
    timeout: Duration,
}

/// Connections to the servers of an address.
pub(crate) struct Dialer {
    access: Arc<RedisAccess>,
}

impl Dialer {
    pub(crate) fn new(access: Arc<RedisAccess>) -> Self {
        Self { access }
    }

    pub(super) fn servers(&self) -> &RedisServers {
        &self.access.address.servers
    }

    pub(super) fn timeout(&self) -> Duration {
        self.access.connect_timeout
    }

    /// Maximum duration of the dial of one server: a little less, so that the attempt can tell why it failed.
    pub(super) fn dial_timeout(&self) -> Duration {
        self.timeout() * 9 / 10
    }

    /// Reads the login for the servers that hold the counters.
    pub(super) async fn login(&self) -> Result<Login, ConnectError> {
        self.read_login(|access| access.credentials.login(access.address.database)).await
    }

    /// Reads the login for the Sentinels.
    pub(super) async fn sentinel_login(&self) -> Result<Login, ConnectError> {
        self.read_login(|access| access.sentinel_credentials.login(0)).await
    }

    /// Reads the files on a thread that may wait for them.
    async fn read_login(
        &self,
        info: impl FnOnce(&RedisAccess) -> Result<RedisConnectionInfo, String> + Send + 'static,
    ) -> Result<Login, ConnectError> {
        let (access, timeout) = (self.access.clone(), self.dial_timeout());
        let read = spawn_blocking(move || Ok(Login { info: info(&access)?, tls: tls(&access)?, timeout })).await;
        read.unwrap_or_else(|error| Err(error.to_string())).map_err(|why| ConnectError::refused("FILE", why))
    }
}

#[cfg(feature = "tls")]
fn tls(access: &RedisAccess) -> Result<Option<Arc<RedisTls>>, String> {
    access.address.is_tls.then(|| access.tls.load().map(Arc::new)).transpose()
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unnecessary_wraps, reason = "as with TLS")]
fn tls(_: &RedisAccess) -> Result<Option<Arc<RedisTls>>, String> {
    Ok(None)
}

impl Login {
    /// Maximum duration of a dial.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Connects to this address of a host, and logs in.
    pub(super) async fn dial(&self, address: SocketAddr, host: &str, node: String) -> Result<Socket, ConnectError> {
        let stream = server_stream::tcp(address).await?;
        let stream = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                // A server without TLS may wait for more bytes.
                let wait = self.timeout / 2;
                let handshake = timeout(wait, server_stream::handshake(tls, host, stream)).await;
                let silent = || ConnectError { code: "TLS-NONE".to_owned(), ..ConnectError::silent(wait) };
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

    /// Asks a server for its role. Proxies may leave the question without an answer, and some replicas take writes.
    pub(super) async fn role(&self, socket: &Socket) -> Result<ServerRole, ConnectError> {
        let asked = timeout(ROLE_ANSWER_WAIT, socket.exchange::<Value>(&redis::cmd("ROLE"))).await;
        let Ok(answer) = asked else { return Ok(ServerRole::Untold) };
        match answer.map_err(|error| (error.is_io_error() || error.is_unrecoverable_error(), error)) {
            Ok(answer) => match role(&answer) {
                ServerRole::Replica(_) if takes_writes(socket).await => Ok(ServerRole::Untold),
                role => Ok(role),
            },
            Err((true, error)) => Err(self.refusal(ConnectError::of_login(&error))),
            Err((false, error)) => match ConnectError::of_login(&error) {
                refusal if matches!(&*refusal.code, "NOAUTH" | "DENIED" | "NO-REDIS" | "TOO-LONG") => Err(refusal),
                _ => Ok(ServerRole::Untold),
            },
        }
    }

    /// Returns true if the server answers a ping.
    pub(super) async fn answers_ping(&self, socket: &Socket) -> bool {
        socket.exchange::<Value>(&redis::cmd("PING")).await.is_ok()
    }

    /// Returns the error of a login with its code. A server that wants a certificate says so after the handshake, and may only
    /// close the connection.
    pub(super) fn refusal(&self, error: ConnectError) -> ConnectError {
        let is_asked = || self.tls.as_deref().is_some_and(server_stream::lacks_certificate);
        let code = match error.text.split_once(TLS_ALERT) {
            _ if error.code != "NO-LOGIN" => return error,
            Some((_, alert)) if CERTIFICATE_ALERTS.iter().any(|of_certificate| alert.starts_with(of_certificate)) => {
                "TLS-CLIENT"
            }
            Some(_) => "TLS",
            None if is_asked() => "TLS-CLIENT",
            None => return error,
        };
        ConnectError::refused(code, error.text)
    }
}

/// Returns true if a replica takes writes (`replica-read-only no`).
async fn takes_writes(socket: &Socket) -> bool {
    let info: RedisResult<String> = socket.exchange(redis::cmd("INFO").arg("replication")).await;
    info.is_ok_and(|info| info.lines().any(|line| line.trim_end() == "slave_read_only:0"))
}

fn role(answer: &Value) -> ServerRole {
    let Value::Array(fields) = answer else { return ServerRole::Untold };
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
