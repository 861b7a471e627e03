//! Envoy for tests, without an admin interface. It has one listener.

use std::fs;
use std::net::TcpStream;
use std::path::Path;

use crate::port::free_port;
use crate::server::{Server, ServerKind};

/// Location of the program relative to this crate; scripts/servers installs it.
const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/envoy/envoy/_bin/envoy");

/// Envoy.
pub struct EnvoyKind;

impl ServerKind for EnvoyKind {
    const NAME: &'static str = "Envoy";

    fn is_ready(port: u16) -> bool {
        TcpStream::connect(("127.0.0.1", port)).is_ok()
    }
}

impl Server<EnvoyKind> {
    /// Starts Envoy with a configuration in which `LISTENER_PORT` stands for the port of the listener.
    ///
    /// # Panics
    /// Panics if Envoy is not installed.
    #[must_use]
    pub fn start(config: &str) -> Self {
        assert!(Path::new(PROGRAM).is_file(), "Envoy is missing; run scripts/servers");
        let port = free_port();
        let launched = Self::launch(port, |folder| {
            let file = folder.join("envoy.yaml");
            fs::write(&file, config.replace("LISTENER_PORT", &port.to_string()))?;
            let file = file.display().to_string();
            let command = [PROGRAM, "--config-path", &file, "--concurrency", "1", "--disable-hot-restart"];
            Ok(command.map(ToOwned::to_owned).to_vec())
        });
        launched.unwrap_or_else(|error| panic!("{error}"))
    }
}
