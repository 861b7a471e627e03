//! Surfaces of agents: their sockets for HTTP and gRPC, served until the process is told to stop.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate::Agent;
use tollgate_http::Gateway;

use crate::serve;

/// Distance between the ports of two regions in one process.
const PORTS_OF_REGION: u16 = 100;

/// Address of the gRPC services.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrpcAddress {
    /// Not served.
    Off,
    At(SocketAddr),
}

/// Sockets of one agent.
pub(crate) struct Sockets {
    pub(crate) http: TcpListener,
    pub(crate) grpc: Option<TcpListener>,
}

/// Servers of a process.
pub(crate) struct Surfaces {
    servers: JoinSet<io::Result<()>>,
    stop: watch::Sender<bool>,
}

impl GrpcAddress {
    /// Returns the address for the agent of a region.
    pub(crate) fn spaced(self, number: u16) -> Self {
        match self {
            Self::Off => Self::Off,
            Self::At(first) => Self::At(spaced(first, number)),
        }
    }

    /// Parses HOST:PORT or `off`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        serve::address(text).map(Self::At).map_err(|_| "write HOST:PORT, such as 127.0.0.1:8081, or off".to_owned())
    }
}

/// Returns the address of a region's agent: 100 ports after that of the region before.
pub(crate) fn spaced(first: SocketAddr, number: u16) -> SocketAddr {
    let port = if first.port() == 0 { 0 } else { first.port().saturating_add(number * PORTS_OF_REGION) };
    SocketAddr::new(first.ip(), port)
}

impl Sockets {
    /// Binds the sockets of an agent. Without an address of its own, gRPC takes the port after that of HTTP if it is free.
    pub(crate) async fn bind(http: SocketAddr, grpc: Option<GrpcAddress>) -> anyhow::Result<Self> {
        let listener = serve::listen(http, "--http").await?;
        let grpc = match grpc {
            Some(GrpcAddress::Off) => None,
            Some(GrpcAddress::At(address)) => Some(serve::listen(address, "--grpc").await?),
            None => {
                let port = if http.port() == 0 { 0 } else { http.port().saturating_add(1) };
                let address = SocketAddr::new(http.ip(), port);
                let bound = TcpListener::bind(address).await;
                let warn = |error: &io::Error| {
                    tracing::warn!(
                        "gRPC is not served, because {address} cannot be bound: {error}; choose another address with --grpc, or --grpc off"
                    );
                };
                bound.inspect_err(warn).ok()
            }
        };
        Ok(Self { http: listener, grpc })
    }

    /// Returns the addresses of HTTP and gRPC.
    pub(crate) fn addresses(&self) -> io::Result<(SocketAddr, Option<SocketAddr>)> {
        Ok((self.http.local_addr()?, self.grpc.as_ref().map(TcpListener::local_addr).transpose()?))
    }
}

impl Surfaces {
    pub(crate) fn new() -> Self {
        Self { servers: JoinSet::new(), stop: watch::Sender::new(false) }
    }

    /// Serves an agent, on HTTP with these routes.
    pub(crate) fn serve(&mut self, sockets: Sockets, http: Router, agent: Agent) {
        self.spawn(sockets.http, http);
        if let Some(listener) = sockets.grpc {
            self.spawn(listener, tollgate_grpc::router(agent));
        }
    }

    /// Serves an agent behind a gateway.
    pub(crate) fn serve_agent(&mut self, sockets: Sockets, gateway: Gateway, agent: Agent) {
        self.serve(sockets, tollgate_http::router_behind(gateway, agent.clone()), agent);
    }

    /// Serves until `stopping` completes, and then until the requests in progress are answered.
    ///
    /// # Errors
    /// When a socket fails.
    pub(crate) async fn run_until(mut self, stopping: impl Future<Output = ()>) -> anyhow::Result<()> {
        tokio::select! {
            () = stopping => {}
            ended = self.servers.join_next() => ended.context("a process serves a socket at least")???,
        }
        self.stop.send_replace(true);
        for served in self.servers.join_all().await {
            served?;
        }
        Ok(())
    }

    fn spawn(&mut self, listener: TcpListener, router: Router) {
        let mut stopped = self.stop.subscribe();
        // The channel is closed at the end of the process at the latest.
        let ends = async move {
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        self.servers.spawn(tollgate_http::serve(listener, router, ends));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_100_ports_apart() {
        let first = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let ports = |port| (0..3).map(|number| spaced(first(port), number).port()).collect::<Vec<_>>();
        assert_eq!((ports(8080), ports(0), ports(u16::MAX)), (vec![8080, 8180, 8280], vec![0; 3], vec![u16::MAX; 3]));
        assert_eq!(GrpcAddress::At(first(8081)).spaced(2), GrpcAddress::At(first(8281)));
    }

    #[test]
    fn an_address_or_off_is_parsed() {
        assert_eq!(GrpcAddress::parse("off"), Ok(GrpcAddress::Off));
        assert_eq!(GrpcAddress::parse("127.0.0.1:9"), Ok(GrpcAddress::At(([127, 0, 0, 1], 9).into())));
        assert!(GrpcAddress::parse("8081").is_err());
    }
}
