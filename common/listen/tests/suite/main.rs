//! Connections over real sockets, mostly in virtual time, which advances only while all tasks are idle.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tollgate_listen::{Address, ListenGroup, ListenSettings, Listener, Peer, serve};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
/// Maximum time of a step.
const WAIT: Duration = Duration::from_secs(30);

struct Server {
    address: Address,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Server {
    /// Starts a server that answers with the peer.
    async fn start(address: Address, settings: ListenSettings) -> Self {
        let group = ListenGroup::new(settings, None);
        let listener = Listener::bind(&address, &group).await.expect("the address is free");
        let address = listener.address().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        let router =
            Router::new().route("/", get(|ConnectInfo(peer): ConnectInfo<Peer>| async move { format!("{peer:?}") }));
        Self { address, stop, served: tokio::spawn(serve(listener, router, stopped)) }
    }

    async fn of(settings: ListenSettings) -> Self {
        Self::start(SocketAddr::from(([127, 0, 0, 1], 0)).into(), settings).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address.tcp().expect("TCP")).await.expect("it listens")
    }
}

/// Sends a request and returns the response.
async fn ask(stream: &mut (impl AsyncReadExt + AsyncWriteExt + Unpin)) -> io::Result<String> {
    stream.write_all(REQUEST).await?;
    let mut response = vec![0; 4096];
    let len = within(stream.read(&mut response)).await?;
    Ok(String::from_utf8_lossy(&response[..len]).into_owned())
}

async fn within<T>(step: impl Future<Output = T>) -> T {
    tokio::time::timeout(WAIT, step).await.expect("in time")
}

/// Returns true once the server has closed the connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut rest = Vec::new();
    within(stream.read_to_end(&mut rest)).await.is_ok_and(|_| true)
}

fn settings(connections_max: usize, header_timeout_ms: u64) -> ListenSettings {
    let header_timeout = Duration::from_millis(header_timeout_ms);
    ListenSettings { connections_max, header_timeout, idle_timeout: header_timeout * 4, ..ListenSettings::default() }
}

/// A connection without a request, and one with half a request, are closed. One that sends requests stays.
#[tokio::test(start_paused = true)]
async fn slow_clients_are_closed_and_others_stay() {
    let server = Server::of(settings(100, 400)).await;
    let (mut silent, mut half, mut good) = (server.connect().await, server.connect().await, server.connect().await);
    half.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    let good = tokio::spawn(async move {
        // Longer than a slow client may take, with pauses that are shorter.
        for _ in 0..12 {
            assert!(ask(&mut good).await.unwrap().starts_with("HTTP/1.1 200"));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(is_closed(&mut silent).await && is_closed(&mut half).await);
    good.await.unwrap();
}

/// A client of HTTP/2 may send what needs no response, and then nothing for longer than a request may take. A slow machine only
/// makes the pauses longer.
#[tokio::test]
async fn an_idle_client_of_http2_stays() {
    let server = Server::of(ListenSettings { idle_timeout: WAIT, ..settings(100, 400) }).await;
    let mut stream = server.connect().await;
    let settings_frame = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let window_update = [0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let answer = [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&settings_frame).await.unwrap();
    for pause_ms in [0, 700, 700] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        stream.write_all(&ping).await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(&answer) {
            received.push(within(stream.read_u8()).await.expect("it stays open"));
        }
        stream.write_all(&window_update).await.unwrap();
    }
}

/// A later request that begins like HTTP/2 has no more time than any other.
#[tokio::test(start_paused = true)]
async fn only_the_first_bytes_choose_the_protocol() {
    let server = Server::of(ListenSettings { idle_timeout: WAIT * 10, ..settings(100, 400) }).await;
    let mut stream = server.connect().await;
    assert!(ask(&mut stream).await.unwrap().starts_with("HTTP/1.1 200"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    stream.write_all(b"PRI").await.unwrap();
    assert!(is_closed(&mut stream).await);
}

/// A connection that is idle after a request is closed after the idle timeout, and not after the header timeout.
#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_after_its_own_time() {
    let server = Server::of(settings(100, 100)).await;
    let mut idle = server.connect().await;
    assert!(ask(&mut idle).await.unwrap().starts_with("HTTP/1.1 200"));
    let waited = tokio::time::timeout(Duration::from_millis(200), idle.read_u8()).await;
    assert!(waited.is_err(), "open after the header timeout");
    assert!(is_closed(&mut idle).await);
}

/// At the cap, connections that are idle make room, and a connection in use keeps working.
#[tokio::test(start_paused = true)]
async fn idle_connections_make_room_at_the_cap() {
    let header_timeout_ms = 1_000;
    let cap = 20;
    let server = Server::of(ListenSettings { idle_timeout: WAIT, ..settings(cap, header_timeout_ms) }).await;
    let mut used = server.connect().await;
    let mut idle = Vec::new();
    for _ in 1..cap {
        let mut stream = server.connect().await;
        assert!(ask(&mut stream).await.unwrap().starts_with("HTTP/1.1 200"));
        idle.push(stream);
    }
    // In a later period, the others count as idle.
    for _ in 0..15 {
        assert!(ask(&mut used).await.unwrap().starts_with("HTTP/1.1 200"));
        tokio::time::sleep(Duration::from_millis(header_timeout_ms / 10)).await;
    }
    let mut newer = Vec::new();
    for number in 0..cap / 2 {
        let mut stream = server.connect().await;
        assert!(ask(&mut stream).await.unwrap().starts_with("HTTP/1.1 200"), "{number}");
        newer.push(stream);
    }
    assert!(ask(&mut used).await.unwrap().starts_with("HTTP/1.1 200"));
    let mut closed = 0;
    for stream in &mut idle {
        closed += usize::from(ask(stream).await.is_ok_and(|response| response.is_empty()));
    }
    assert_eq!(closed, cap / 2);
}

/// P3: a Unix socket serves requests. Its file disappears with the server, and that of a killed process is replaced.
#[tokio::test]
async fn a_unix_socket_serves_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "as after a kill");
    let server = Server::start(Address::Unix(path.clone()), ListenSettings::default()).await;
    assert!(ask(&mut UnixStream::connect(&path).await.unwrap()).await.unwrap().ends_with("Unix"));
    let group = ListenGroup::new(ListenSettings::default(), None);
    assert!(Listener::bind(&server.address, &group).await.is_err(), "another process listens");
    assert!(UnixStream::connect(&path).await.is_ok(), "and goes on");
    server.stop.send(()).unwrap();
    within(server.served).await.unwrap();
    assert!(!Path::exists(&path));
}

/// A file that is no socket is never removed.
#[tokio::test]
async fn another_file_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    std::fs::write(&path, "data").unwrap();
    let group = ListenGroup::new(ListenSettings::default(), None);
    assert!(Listener::bind(&Address::Unix(path.clone()), &group).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "data");
}
