//! Gateways for tests, each with its configuration in a folder of its own.

use std::net::TcpStream;
use std::path::Path;

use crate::port::free_port;
use crate::server::{Server, ServerKind, require};

const ENVOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/envoy/envoy/_bin/envoy");
const TRAEFIK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/traefik/bin/traefik");

/// Gateway.
pub struct GatewayKind;

/// Program of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatewayProgram {
    /// Caddy, with a file `Caddyfile`.
    Caddy,
    /// Envoy, with a file `envoy.yaml`.
    Envoy,
    /// `HAProxy`, with a file `haproxy.cfg`.
    Haproxy,
    /// nginx, with a file `nginx.conf` that keeps it one process in the foreground.
    Nginx,
    /// Traefik, with a file `traefik.yaml`.
    Traefik,
}

impl ServerKind for GatewayKind {
    const NAME: &'static str = "the gateway";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl GatewayProgram {
    /// Returns the command, in which `FOLDER` stands for the folder of the configuration.
    const fn command(self) -> &'static [&'static str] {
        match self {
            Self::Caddy => &[
                "env",
                "XDG_CONFIG_HOME=FOLDER",
                "XDG_DATA_HOME=FOLDER",
                "caddy",
                "run",
                "--config",
                "FOLDER/Caddyfile",
            ],
            Self::Envoy => {
                &[ENVOY, "--config-path", "FOLDER/envoy.yaml", "--concurrency", "1", "--disable-hot-restart"]
            }
            Self::Haproxy => &["haproxy", "-db", "-f", "FOLDER/haproxy.cfg"],
            Self::Nginx => &["nginx", "-e", "stderr", "-c", "FOLDER/nginx.conf"],
            Self::Traefik => &[TRAEFIK, "--configfile=FOLDER/traefik.yaml"],
        }
    }

    /// Returns the program, an argument that it answers to, and the command that installs it.
    const fn requirement(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Caddy => ("caddy", "version", "run scripts/servers, or apt-get install caddy"),
            Self::Envoy => (ENVOY, "--version", "run scripts/servers"),
            Self::Haproxy => ("haproxy", "-v", "run scripts/servers, or apt-get install haproxy"),
            Self::Nginx => ("nginx", "-v", "run scripts/servers, or apt-get install nginx-light"),
            Self::Traefik => (TRAEFIK, "version", "run scripts/servers"),
        }
    }
}

impl Server<GatewayKind> {
    /// Starts a gateway. `configure` writes its files to the folder, with a listener on the port.
    ///
    /// # Panics
    /// Panics if the gateway is not installed or does not listen.
    #[must_use]
    pub fn start(program: GatewayProgram, configure: impl FnOnce(&Path, u16)) -> Self {
        let port = free_port();
        let launched = Self::launch(port, |folder| {
            let (name, argument, remedy) = program.requirement();
            require(name, argument, remedy)?;
            configure(folder, port);
            let path = folder.display().to_string();
            Ok(program.command().iter().map(|word| word.replace("FOLDER", &path)).collect())
        });
        launched.unwrap_or_else(|error| panic!("{error}"))
    }
}
