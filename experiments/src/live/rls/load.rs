//! The load: each call is sent at its due instant to both targets, regardless of earlier answers (an open loop).

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
use tokio::task::JoinSet;
use tollgate_core::clock::Stopwatch;
use tollgate_sim::figures::{as_us, histogram};

use super::request;
use crate::error::ExperimentError;

/// Connections to each target, as of a gateway with so many threads.
const CONNECTIONS: usize = 4;
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// Server of the calls.
#[derive(Clone)]
pub(super) struct Target {
    address: SocketAddr,
    connections: Arc<[SendRequest<Full<Bytes>>]>,
}

pub(super) struct Load {
    pub(super) agent: Target,
    pub(super) echo: Target,
    pub(super) rate: NonZeroU32,
}

/// Latencies of the calls to one target, in microseconds.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) took_us: Histogram<u64>,
    /// Calls without an answer of the service.
    pub(super) failed: u64,
}

impl Target {
    pub(super) async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) =
                handshake(TokioExecutor::new(), TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
            tokio::spawn(connection);
            connections.push(sender);
        }
        Ok(Self { address, connections: connections.into() })
    }

    /// Returns the frames of the answer to a request.
    pub(super) async fn ask(&self, request: Vec<u8>) -> std::io::Result<Bytes> {
        self.ask_on(0, request).await
    }

    async fn ask_on(&self, nth: usize, request: Vec<u8>) -> std::io::Result<Bytes> {
        let call = Request::post(format!("http://{}{PATH}", self.address)).header("te", "trailers");
        let call = call.header("content-type", "application/grpc").body(Full::new(request.into()));
        let mut sender = self.connections[nth % CONNECTIONS].clone();
        let answer = sender.send_request(call.map_err(std::io::Error::other)?).await.map_err(std::io::Error::other)?;
        let body = answer.into_body().collect().await.map_err(std::io::Error::other)?;
        match body.trailers().and_then(|trailers| trailers.get("grpc-status")) {
            Some(status) if status == "0" => Ok(body.to_bytes()),
            other => Err(std::io::Error::other(format!("the service answers with the status {other:?}"))),
        }
    }

    async fn measure(self, nth: usize, request: Vec<u8>, due: Duration, since: Stopwatch, to: Arc<Mutex<Measured>>) {
        let answered = self.ask_on(nth, request).await.is_ok();
        let took = since.elapsed().saturating_sub(due);
        let mut measured = to.lock();
        measured.took_us.saturating_record(as_us(took));
        measured.failed += u64::from(!answered);
    }
}

impl Load {
    /// Sends calls for a time, after `begin`. Returns the latencies of the agent and of the echo.
    pub(super) async fn run(&self, length: Duration, begin: impl FnOnce()) -> Result<[Measured; 2], ExperimentError> {
        let measured = [(); 2].map(|()| Arc::new(Mutex::new(Measured { took_us: histogram(), failed: 0 })));
        begin();
        let (targets, results, rate) = ([self.agent.clone(), self.echo.clone()], measured.clone(), self.rate);
        let runtime = Handle::current();
        let timer = std::thread::Builder::new().name("rls-load".into()).spawn(move || {
            let (since, mut rng) = (Stopwatch::start(), fastrand::Rng::with_seed(1));
            let (mut calls, mut due) = (JoinSet::new(), Duration::ZERO);
            for nth in 0.. {
                // Intervals of a Poisson process.
                due += Duration::from_secs_f64(-(1.0 - rng.f64()).ln() / f64::from(rate.get()));
                if due >= length {
                    break;
                }
                let wait = due.saturating_sub(since.elapsed());
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                let request = request::of(nth as u64, &mut rng);
                for (target, result) in targets.iter().zip(&results) {
                    let call = target.clone().measure(nth, request.clone(), due, since, result.clone());
                    calls.spawn_on(call, &runtime);
                }
            }
            calls
        })?;
        while !timer.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let calls = timer.join().map_err(|_| std::io::Error::other("the thread of the load panicked"))?;
        calls.join_all().await;
        Ok(measured.map(|of| of.lock().clone()))
    }
}
