//! Surfaces of agents: their sockets for HTTP and gRPC, served until the process is told to stop.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate::Agent;
use tollgate_command::exit::Usage;
use tollgate_http::{HttpSettings, SplitRoutes};
use tollgate_listen::{Address, ListenGroup, Listener};

use crate::listen::bind;

/// Cap on the connections of operators, beside that of gateways. The process has descriptors left for them.
const ADMIN_CONNECTIONS_MAX: usize = 64;
/// Distance between the ports of two regions in one process.
const PORTS_OF_REGION: u16 = 100;

/// Address of the gRPC services.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GrpcAddress {
    /// Not served.
    Off,
    At(Address),
}

/// Sockets of one agent.
pub(crate) struct Sockets {
    pub(crate) http: Listener,
    pub(crate) grpc: Option<Listener>,
    /// Routes of operators; without it, they are on `http`.
    pub(crate) admin: Option<Listener>,
}

/// Addresses of the sockets of one agent.
pub(crate) struct Addresses {
    pub(crate) http: Address,
    pub(crate) grpc: Option<Address>,
    pub(crate) admin: Option<Address>,
    /// Scheme of the URLs of TCP addresses.
    pub(crate) scheme: &'static str,
}

/// Servers of a process.
pub(crate) struct Surfaces {
    servers: JoinSet<()>,
    agents: Vec<Agent>,
    stop: watch::Sender<bool>,
}

impl GrpcAddress {
    /// Returns the address for the agent of a region.
    ///
    /// # Errors
    /// If the address is a Unix socket.
    pub(crate) fn spaced(&self, number: u16) -> Result<Self, Usage> {
        match self {
            Self::Off => Ok(Self::Off),
            Self::At(first) => spaced(first, number).map(Self::At),
        }
    }

    pub(crate) fn address(&self) -> Option<&Address> {
        if let Self::At(address) = self { Some(address) } else { None }
    }

    /// Parses an address or `off`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let remedy = "write HOST:PORT, such as 127.0.0.1:8081, unix:PATH, or off";
        Address::parse(text).map(Self::At).map_err(|_| remedy.to_owned())
    }
}

/// Returns the address of a region's agent: 100 ports after that of the region before.
///
/// # Errors
/// If the first address is a Unix socket.
pub(crate) fn spaced(first: &Address, number: u16) -> Result<Address, Usage> {
    let wrong = || Usage(format!("{first}: several regions need a port each; write HOST:PORT"));
    let first = first.tcp().ok_or_else(wrong)?;
    let port = if first.port() == 0 { 0 } else { first.port().saturating_add(number * PORTS_OF_REGION) };
    Ok(SocketAddr::new(first.ip(), port).into())
}

impl Sockets {
    /// Binds the sockets of an agent. Without an address of its own, gRPC takes the port after that of HTTP if it is free.
    pub(crate) async fn bind(
        group: &ListenGroup,
        http: &Address,
        grpc: Option<&GrpcAddress>,
        admin: Option<&Address>,
    ) -> anyhow::Result<Self> {
        let listener = bind(group, http, "--http").await?;
        let grpc = match (grpc, http) {
            (Some(GrpcAddress::At(address)), _) => Some(bind(group, address, "--grpc").await?),
            (Some(GrpcAddress::Off), _) | (None, Address::Unix(_)) => None,
            (None, Address::Tcp(http)) => {
                let port = if http.port() == 0 { 0 } else { http.port().saturating_add(1) };
                let address = Address::from(SocketAddr::new(http.ip(), port));
                let warn = |error: &anyhow::Error| {
                    tracing::warn!("gRPC is not served: {error:#}, or leave it out with --grpc off");
                };
                bind(group, &address, "--grpc").await.inspect_err(warn).ok()
            }
        };
        let admin = match admin {
            Some(address) => Some(bind(&group.apart(ADMIN_CONNECTIONS_MAX), address, "--admin").await?),
            None => None,
        };
        Ok(Self { http: listener, grpc, admin })
    }

    pub(crate) fn addresses(&self) -> io::Result<Addresses> {
        let grpc = self.grpc.as_ref().map(Listener::address).transpose()?;
        let admin = self.admin.as_ref().map(Listener::address).transpose()?;
        Ok(Addresses { http: self.http.address()?, grpc, admin, scheme: self.http.scheme() })
    }
}

impl Addresses {
    /// Returns the URL of HTTP; a Unix socket as it is.
    pub(crate) fn url(&self) -> String {
        self.url_of(&self.http)
    }

    /// Returns the URL of one of the addresses; a Unix socket as it is.
    pub(crate) fn url_of(&self, address: &Address) -> String {
        let scheme = if address.tcp().is_some() { format!("{}://", self.scheme) } else { String::new() };
        format!("{scheme}{address}")
    }
}

impl Surfaces {
    pub(crate) fn new() -> Self {
        Self { servers: JoinSet::new(), agents: Vec::new(), stop: watch::Sender::new(false) }
    }

    /// Serves an agent, on HTTP with these routes.
    pub(crate) fn serve(
        &mut self,
        http: Listener,
        grpc: Option<Listener>,
        routes: Router,
        settings: &HttpSettings,
        agent: Agent,
    ) {
        self.spawn(http, routes);
        if let Some(listener) = grpc {
            self.spawn(listener, tollgate_grpc::router_with(settings.body_bytes_max, agent.clone()));
        }
        self.agents.push(agent);
    }

    /// Serves an agent with its own routes, and further ones for operators.
    pub(crate) fn serve_agent(
        &mut self,
        sockets: Sockets,
        settings: &HttpSettings,
        agent: Agent,
        operators: Option<Router>,
    ) {
        let operators = operators.map(tollgate_http::as_administration).unwrap_or_default();
        let routes = match sockets.admin {
            Some(listener) => {
                let SplitRoutes { traffic, admin } = tollgate_http::split_routes(settings.clone(), agent.clone());
                self.spawn(listener, admin.merge(operators));
                traffic
            }
            None => tollgate_http::router_with(settings.clone(), agent.clone()).merge(operators),
        };
        self.serve(sockets.http, sockets.grpc, routes, settings, agent);
    }

    /// Serves until `stopping` completes, then for the time `drain` while the agents are not ready, and then until the requests in
    /// progress are answered.
    ///
    /// # Errors
    /// When a server fails.
    pub(crate) async fn run_until(
        mut self,
        stopping: impl Future<Output = ()>,
        drain: Option<Duration>,
    ) -> anyhow::Result<()> {
        tokio::select! {
            () = stopping => {}
            ended = self.servers.join_next() => ended.context("a process serves a socket at least")??,
        }
        if let Some(time) = drain {
            tracing::info!("draining for {time:?}: not ready, so that gateways leave; calls are still decided");
            self.agents.iter().for_each(Agent::drain);
            tokio::time::sleep(time).await;
        }
        self.stop.send_replace(true);
        self.servers.join_all().await;
        Ok(())
    }

    fn spawn(&mut self, listener: Listener, router: Router) {
        let mut stopped = self.stop.subscribe();
        // The channel is closed at the end of the process at the latest.
        let ends = async move {
            let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
        };
        self.servers.spawn(tollgate_listen::serve(listener, router, ends));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_100_ports_apart() {
        let first = |port| Address::from(SocketAddr::from(([127, 0, 0, 1], port)));
        let port =
            |first: &Address, number| spaced(first, number).ok().and_then(|address| address.tcp()).expect("TCP").port();
        let ports = |port_of_first| (0..3).map(|number| port(&first(port_of_first), number)).collect::<Vec<_>>();
        assert_eq!((ports(8080), ports(0), ports(u16::MAX)), (vec![8080, 8180, 8280], vec![0; 3], vec![u16::MAX; 3]));
        assert_eq!(GrpcAddress::At(first(8081)).spaced(2).ok(), Some(GrpcAddress::At(first(8281))));
        assert!(spaced(&Address::Unix("/run/tollgate.sock".into()), 0).is_err());
    }

    #[test]
    fn an_address_or_off_is_parsed() {
        assert_eq!(GrpcAddress::parse("off"), Ok(GrpcAddress::Off));
        assert_eq!(
            GrpcAddress::parse("127.0.0.1:9"),
            Ok(GrpcAddress::At(SocketAddr::from(([127, 0, 0, 1], 9)).into()))
        );
        assert!(GrpcAddress::parse("8081").is_err());
    }
}
