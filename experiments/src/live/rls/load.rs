//! The load: each call is sent at its due instant to both targets, regardless of earlier answers (an open loop).

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, spawn_blocking};
use tollgate_core::clock::Stopwatch;
use tollgate_sim::figures::{as_us, histogram};

use super::request;

/// Connections to each target, as of a gateway with so many threads.
const CONNECTIONS: usize = 4;
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Server of the calls.
#[derive(Clone)]
pub(super) struct RlsTarget {
    address: SocketAddr,
    connections: Arc<[SendRequest<Full<Bytes>>]>,
}

#[derive(Clone)]
pub(super) struct RlsLoad {
    pub(super) agent: RlsTarget,
    pub(super) echo: RlsTarget,
    pub(super) rate: NonZeroU32,
}

/// Latencies of the calls to one target.
#[derive(Clone, Debug)]
pub(super) struct RlsLatencies {
    pub(super) took_us: Histogram<u64>,
    /// Calls without an answer of the service.
    pub(super) failed: u64,
}

impl RlsTarget {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) =
                handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(io::Error::other)?;
            tokio::spawn(connection);
            connections.push(sender);
        }
        Ok(Self { address, connections: connections.into() })
    }

    /// Returns the frames of the answer to a request.
    pub(super) async fn ask(&self, request: Vec<u8>) -> io::Result<Bytes> {
        self.ask_on(0, request).await
    }

    async fn ask_on(&self, nth: usize, request: Vec<u8>) -> io::Result<Bytes> {
        let call = Request::post(format!("http://{}{PATH}", self.address)).header("te", "trailers");
        let call = call.header("content-type", "application/grpc").body(Full::new(request.into()));
        let mut sender = self.connections[nth % CONNECTIONS].clone();
        let answer = sender.send_request(call.map_err(io::Error::other)?).await.map_err(io::Error::other)?;
        // A refusal has its status in the headers, and no body.
        let refusal = answer.headers().get("grpc-status").cloned();
        let body = answer.into_body().collect().await.map_err(io::Error::other)?;
        match body.trailers().and_then(|trailers| trailers.get("grpc-status")).or(refusal.as_ref()) {
            Some(status) if status == "0" => Ok(body.to_bytes()),
            other => Err(io::Error::other(format!("the service answers with the status {other:?}"))),
        }
    }

    async fn measure(
        self,
        nth: usize,
        request: Vec<u8>,
        due: Duration,
        since: Stopwatch,
        to: Arc<Mutex<RlsLatencies>>,
    ) {
        let answered = self.ask_on(nth, request).await.is_ok();
        let took = since.elapsed().saturating_sub(due);
        let mut latencies = to.lock();
        latencies.took_us.saturating_record(as_us(took));
        latencies.failed += u64::from(!answered);
    }
}

impl RlsLoad {
    /// Sends calls for a time. Returns the latencies of the agent and of the echo.
    pub(super) async fn run(&self, length: Duration) -> io::Result<[RlsLatencies; 2]> {
        let latencies = [(); 2].map(|()| Arc::new(Mutex::new(RlsLatencies { took_us: histogram(), failed: 0 })));
        let (load, results, runtime) = (self.clone(), latencies.clone(), Handle::current());
        // A thread of its own sends the calls, because timers of the runtime are late by up to 1 ms.
        let calls = spawn_blocking(move || load.send(length, &results, &runtime)).await.map_err(io::Error::other)?;
        calls.join_all().await;
        Ok(latencies.map(|of| of.lock().clone()))
    }

    fn send(&self, length: Duration, results: &[Arc<Mutex<RlsLatencies>>; 2], runtime: &Handle) -> JoinSet<()> {
        let (since, mut rng) = (Stopwatch::start(), fastrand::Rng::with_seed(1));
        let (mut calls, mut due) = (JoinSet::new(), Duration::ZERO);
        for nth in 0.. {
            // Intervals of a Poisson process.
            due += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / f64::from(self.rate.get()));
            if due >= length {
                break;
            }
            let wait = due.saturating_sub(since.elapsed());
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
            let request = request::of(nth, &mut rng);
            for (target, result) in [&self.agent, &self.echo].into_iter().zip(results) {
                let call = target.clone().measure(nth, request.clone(), due, since, result.clone());
                calls.spawn_on(call, runtime);
            }
        }
        calls
    }
}
