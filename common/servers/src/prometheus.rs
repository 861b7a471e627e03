//! Prometheus, which reads the metrics of processes under test, evaluates alerts and answers queries.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use crate::port::free_port;
use crate::server::{Server, ServerKind, require};

const PROGRAM: &str = "prometheus";
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Prometheus.
pub struct PrometheusKind;

impl ServerKind for PrometheusKind {
    const NAME: &'static str = "Prometheus";

    fn is_ready(port: u16) -> bool {
        get(port, "/-/ready").is_ok_and(|answer| answer.starts_with("HTTP/1.0 200"))
    }
}

impl Server<PrometheusKind> {
    /// Starts a server. `configure` writes its file `prometheus.yaml` to the folder, and the files that it names.
    ///
    /// # Panics
    /// Panics if Prometheus is not installed or refuses the file.
    #[must_use]
    pub fn start(configure: impl FnOnce(&Path)) -> Self {
        let port = free_port();
        let launched = Self::launch(port, |folder| {
            require(PROGRAM, "--version", "run scripts/servers, or apt-get install prometheus")?;
            configure(folder);
            let path = folder.display();
            Ok(vec![
                PROGRAM.to_owned(),
                format!("--config.file={path}/prometheus.yaml"),
                format!("--storage.tsdb.path={path}/data"),
                format!("--web.listen-address=127.0.0.1:{port}"),
            ])
        });
        launched.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the answer to a query at the present time, as JSON.
    ///
    /// # Panics
    /// Panics if the server does not respond within 30 s.
    #[must_use]
    pub fn query(&self, query: &str) -> String {
        let encoded = query.bytes().fold(String::new(), |encoded, byte| encoded + &format!("%{byte:02X}"));
        self.body(&format!("/api/v1/query?query={encoded}"))
    }

    /// Returns the alerts that are pending or firing, as JSON.
    ///
    /// # Panics
    /// Panics if the server does not respond within 30 s.
    #[must_use]
    pub fn alerts(&self) -> String {
        self.body("/api/v1/alerts")
    }

    fn body(&self, path: &str) -> String {
        let answer = get(self.port(), path).expect("Prometheus responds");
        let (_, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        body.to_owned()
    }
}

/// Sends a request by HTTP/1.0, whose answer ends with the connection.
fn get(port: u16, path: &str) -> io::Result<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port))?;
    connection.set_read_timeout(Some(RESPONSE_TIMEOUT))?;
    write!(connection, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    Ok(answer)
}
