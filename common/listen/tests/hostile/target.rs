//! One server for all hostile clients, and its good client.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, Error};
use tollgate_listen::{Address, Certificates, ListenGroup, ListenSettings, Listener, Tls, TlsPem, serve};

use crate::certificates::{BOTH, Issuer, client_config};

/// Maximum time for the end of a client.
pub(crate) const END_WAIT: Duration = Duration::from_mins(1);
/// Maximum time that the server gives a client for its handshake and the head of its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Content type of a record that is an alert.
const ALERT: u8 = 21;
pub(crate) const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: t\r\n\r\n";

/// Client that a server should not serve, and its end.
pub(crate) struct HostileClient {
    pub(crate) name: &'static str,
    pub(crate) attack: Attack,
    pub(crate) expected: End,
    /// True if a timeout of the server ends it.
    pub(crate) is_slow: bool,
}

/// Bytes that a client sends.
pub(crate) enum Attack {
    /// In place of a handshake. If the flag is set, the client then sends its end.
    Records(Vec<u8>, bool),
    /// A handshake with these settings, then a good request.
    Handshake(Arc<ClientConfig>),
    /// A good handshake, then these bytes within TLS.
    Within(Arc<ClientConfig>, Vec<u8>),
    /// A good handshake, then these bytes beside TLS.
    Beside(Arc<ClientConfig>, Vec<u8>),
}

/// End of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// An alert with this number.
    Alert(u8),
    /// A record with this content type, which is no alert.
    Record(u8),
    /// A status of HTTP.
    Status(u16),
    /// A closed connection without a reason.
    Closed,
    /// Neither an answer nor an end.
    Silent,
}

/// Server on a free port.
pub(crate) struct Target {
    address: SocketAddr,
    good: Arc<ClientConfig>,
}

impl Target {
    /// Starts a server for the clients of an issuer, and answers with the number of requests.
    pub(crate) async fn start(issuer: &Issuer) -> Self {
        let server = issuer.issue((2000, 2100));
        let ca = issuer.pem();
        let pem = TlsPem { certificate: &server.chain, key: &server.key, client_ca: Some(&ca) };
        let tls = Tls::new("server.pem", Certificates::parse(pem).unwrap());
        let settings = ListenSettings { header_timeout: HEADER_TIMEOUT, ..ListenSettings::default() };
        let group = ListenGroup::new(settings, Some(tls));
        let address: Address = SocketAddr::from(([127, 0, 0, 1], 0)).into();
        let listener = Listener::bind(&address, &group).await.unwrap();
        let address = listener.address().unwrap().tcp().unwrap();
        let requests = Arc::new(AtomicU64::new(0));
        let count = async move || (requests.fetch_add(1, Ordering::Relaxed) + 1).to_string();
        tokio::spawn(serve(listener, Router::new().route("/", get(count)), std::future::pending()));
        let good = client_config(issuer, Some(&issuer.issue((2000, 2100))), BOTH);
        Self { address, good: good.into() }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Asks with a valid certificate on a new connection, and returns the number of requests that were served.
    pub(crate) async fn good_client(&self) -> u64 {
        let mut stream = self.handshake(&self.good).await.expect("a handshake");
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = vec![0; 1 << 10];
        let len = timeout(END_WAIT, stream.read(&mut answer)).await.expect("an answer").unwrap();
        let answer = String::from_utf8_lossy(&answer[..len]).into_owned();
        let count = answer.rsplit("\r\n").next().and_then(|body| body.parse().ok());
        count.unwrap_or_else(|| panic!("no answer: {answer}"))
    }

    async fn handshake(&self, config: &Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(config.clone()).connect(name, self.connect().await).await
    }

    /// Connects as a hostile client. Returns the fault if it has another end.
    pub(crate) async fn connect_as(&self, client: &HostileClient) -> Result<(), String> {
        let end = async {
            match &client.attack {
                Attack::Records(bytes, is_ended) => self.send(bytes, *is_ended).await,
                Attack::Handshake(config) => match self.handshake(config).await {
                    Ok(stream) => within(stream, REQUEST).await,
                    Err(error) => of_error(&error),
                },
                Attack::Within(config, bytes) => within(self.handshake(config).await.unwrap(), bytes).await,
                Attack::Beside(config, bytes) => {
                    let mut stream = self.handshake(config).await.unwrap();
                    let _ = stream.get_mut().0.write_all(bytes).await;
                    within(stream, b"").await
                }
            }
        };
        let end = timeout(END_WAIT, end).await.unwrap_or(End::Silent);
        let HostileClient { name, expected, .. } = client;
        if end == *expected { Ok(()) } else { Err(format!("{name}: {end:?} instead of {expected:?}")) }
    }

    /// Sends bytes in place of a handshake.
    async fn send(&self, bytes: &[u8], is_ended: bool) -> End {
        let mut stream = self.connect().await;
        let (mut read, mut write) = stream.split();
        let send = async {
            // The server may have closed before it has read all.
            let _ = write.write_all(bytes).await;
            if is_ended {
                let _ = write.shutdown().await;
            }
        };
        tokio::join!(send, first_record(&mut read)).1
    }
}

/// Reads the first record of a server.
pub(crate) async fn first_record(read: &mut (impl AsyncReadExt + Unpin)) -> End {
    let mut record = [0; 7];
    match read.read_exact(&mut record).await {
        Ok(_) if record[0] == ALERT => End::Alert(record[6]),
        Ok(_) => End::Record(record[0]),
        Err(_) => End::Closed,
    }
}

/// Sends bytes within TLS, and reads the status of an answer.
async fn within(stream: TlsStream<TcpStream>, bytes: &[u8]) -> End {
    let (mut read, mut write) = tokio::io::split(stream);
    let send = async {
        let _ = write.write_all(bytes).await;
        let _ = write.flush().await;
    };
    let receive = async {
        let mut answer = vec![0; 1 << 10];
        match read.read(&mut answer).await {
            Ok(0) => End::Closed,
            Ok(len) => {
                let head = String::from_utf8_lossy(&answer[..len]).into_owned();
                End::Status(head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status"))
            }
            Err(error) => of_error(&error),
        }
    };
    tokio::join!(send, receive).1
}

/// Returns the end that an error of a client tells.
fn of_error(error: &io::Error) -> End {
    match error.get_ref().and_then(|error| error.downcast_ref::<Error>()) {
        Some(Error::AlertReceived(alert)) => End::Alert(u8::from(*alert)),
        _ => End::Closed,
    }
}
