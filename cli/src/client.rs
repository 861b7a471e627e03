//! HTTP client for a running agent or aggregator.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, bail};
use http::header::{CONTENT_TYPE, HOST};
use http::uri::Authority;
use http::{Request, StatusCode, Uri, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tollgate_command::exit::Usage;
use tollgate_command::output;
use tollgate_listen::TlsClient;

use crate::tls;

/// Longest answer that is read, in bytes.
const ANSWER_LEN_MAX: usize = 8 << 20;

/// Kind of the process that is asked.
#[derive(Clone, Copy)]
struct Server {
    name: &'static str,
    flag: &'static str,
    start: &'static str,
}

/// Socket of the process that is asked.
enum Target {
    /// Host and port.
    Tcp(String),
    /// Host and port, over TLS.
    Tls(String, TlsClient),
    Unix(PathBuf),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(authority) => write!(f, "http://{authority}"),
            Self::Tls(authority, _) => write!(f, "https://{authority}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

const AGENT: Server = Server { name: "agent", flag: "--agent", start: "start an agent with `tollgate up`" };
const AGGREGATOR: Server =
    Server { name: "aggregator", flag: "--aggregator", start: "start one with `tollgate aggregator`" };
const EITHER: Server = Server {
    name: "agent or aggregator",
    flag: "--http",
    start: "start one with `tollgate agent` or `tollgate aggregator`",
};

/// Posts a body to an agent, over TLS with `ca`, and returns status and body of its answer. Returns `None` and prints a message on
/// standard error if no agent answers.
///
/// # Errors
/// If the address is not valid, or the answer is not an agent's.
pub(crate) fn post(
    agent: &str,
    ca: Option<&Path>,
    path: &str,
    body: &Value,
    wait: Duration,
) -> anyhow::Result<Option<(StatusCode, Value)>> {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    ask(AGENT, (agent, ca), request, body.to_string(), wait)
}

/// Returns the body at a path of an aggregator, over TLS with `ca`. Returns `None` and prints a message on standard error if none answers.
///
/// # Errors
/// If the address is not valid, or the answer is not an aggregator's.
pub(crate) fn get(aggregator: &str, ca: Option<&Path>, path: &str, wait: Duration) -> anyhow::Result<Option<Value>> {
    let answer = ask(AGGREGATOR, (aggregator, ca), Request::get(path), String::new(), wait)?;
    Ok(answer.map(|(_, body)| body))
}

/// Posts a body to an aggregator, over TLS with `ca`, and returns the body of its answer. Returns `None` and prints a message on standard error if none
/// answers.
///
/// # Errors
/// If the address is not valid, or the aggregator refuses.
pub(crate) fn post_to_aggregator(
    aggregator: &str,
    ca: Option<&Path>,
    path: &str,
    body: &Value,
    wait: Duration,
) -> anyhow::Result<Option<Value>> {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    Ok(ask(AGGREGATOR, (aggregator, ca), request, body.to_string(), wait)?.map(|(_, body)| body))
}

/// Returns the readiness of an agent or aggregator. Returns `None` and prints a message on standard error if none answers.
///
/// # Errors
/// If the answer is of another program.
pub(crate) fn ready(address: &str, ca: Option<&Path>, wait: Duration) -> anyhow::Result<Option<Value>> {
    let answer = ask(EITHER, (address, ca), Request::get("/readyz"), String::new(), wait)?;
    Ok(answer.map(|(_, body)| body))
}

/// Returns true if a body is that of a denial, in either form. Its status may be the rule's own.
pub(crate) fn is_denial(body: &Value) -> bool {
    body["allowed"] == false || body["error"]["code"] == "RATE_LIMIT_EXCEEDED"
}

fn ask(
    server: Server,
    (address, ca): (&str, Option<&Path>),
    request: request::Builder,
    body: String,
    wait: Duration,
) -> anyhow::Result<Option<(StatusCode, Value)>> {
    let target = target(server, address, ca)?;
    let host = if let Target::Tcp(authority) | Target::Tls(authority, _) = &target { authority } else { "localhost" };
    let request = request.header(HOST, host).body(Full::new(Bytes::from(body)))?;
    let Server { name, flag, start } = server;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async { tokio::time::timeout(wait, send(&target, request)).await });
    let (status, body) = match asked.unwrap_or_else(|_| Err(anyhow!("no answer within {} ms", wait.as_millis()))) {
        Ok(answer) => answer,
        Err(error) => {
            output::note(format_args!(
                "error: no {name} answers at {target}: {error:#}; {start}, or name another with {flag}"
            ));
            return Ok(None);
        }
    };
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let is_answer = |body: &Value| match status {
        StatusCode::OK | StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => true,
        _ if is_denial(body) => true,
        StatusCode::SERVICE_UNAVAILABLE => body["ready"] == false,
        _ => false,
    };
    match body {
        Some(body) if is_answer(&body) => Ok(Some((status, body))),
        body => {
            let detail = body.as_ref().and_then(|body| body["detail"].as_str()).map(str::to_owned);
            let detail = detail.unwrap_or_else(|| format!("this is not the answer of an {name}; name one with {flag}"));
            bail!("{target} answers {status}: {detail}")
        }
    }
}

async fn send(target: &Target, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, Bytes)> {
    match target {
        Target::Tcp(authority) => send_over(TcpStream::connect(authority).await?, request).await,
        Target::Tls(authority, tls) => {
            let host = authority.rsplit_once(':').map_or(&**authority, |(host, _)| host);
            send_over(tls.connect(host, TcpStream::connect(authority).await?).await?, request).await
        }
        Target::Unix(path) => send_over(UnixStream::connect(path).await?, request).await,
    }
}

async fn send_over(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Full<Bytes>>,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let (mut client, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (parts, body) = client.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok((parts.status, body))
}

/// Returns the target of `http://host:port` or `https://host:port`, whose scheme may be missing, or of `unix:PATH`.
fn target(server: Server, address: &str, ca: Option<&Path>) -> Result<Target, Usage> {
    match address.strip_prefix("unix:") {
        Some("") => Err(Usage(format!("{} unix: the path is missing; write unix:/run/tollgate.sock", server.flag))),
        Some(path) => Ok(Target::Unix(path.into())),
        None => {
            let authority = authority(server, address, if ca.is_some() { "https" } else { "http" })?;
            Ok(match ca {
                Some(ca) => Target::Tls(authority, tls::client(ca)?),
                None => Target::Tcp(authority),
            })
        }
    }
}

/// Returns host:port of a URL with this scheme, which may be missing.
fn authority(server: Server, address: &str, scheme: &str) -> Result<String, Usage> {
    let Server { name, flag, .. } = server;
    let example = if name == AGENT.name { "http://127.0.0.1:8080" } else { "http://127.0.0.1:8090" };
    // An address may hold a password.
    let shown = address.rsplit_once('@').map_or(address, |(_, host)| host);
    let wrong = |reason: &str| Usage(format!("{flag} {shown}: {reason}; write {example}"));
    let with_scheme = if address.contains("://") { address.to_owned() } else { format!("{scheme}://{address}") };
    let uri: Uri = with_scheme.parse().map_err(|_| wrong("this is no URL"))?;
    match uri.scheme_str() {
        Some(given) if given == scheme => {}
        Some("https") => return Err(wrong("TLS needs the issuers of the certificate; add --ca FILE")),
        Some("http") => return Err(wrong("--ca is for https")),
        _ => return Err(wrong(&format!("{name}s are asked over HTTP"))),
    }
    if !matches!(uri.path(), "" | "/") {
        return Err(wrong("a path is not expected"));
    }
    if uri.query().is_some() || with_scheme.contains('#') {
        return Err(wrong("nothing is expected behind host and port"));
    }
    let authority = uri.authority().map_or("", Authority::as_str);
    if authority.contains('@') {
        return Err(wrong("user and password are not sent"));
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("the host is missing"))?;
    let port = match authority.strip_prefix(host) {
        Some("") if scheme == "https" => 443,
        Some("") => 80,
        port => {
            let port = port.and_then(|port| port.strip_prefix(':')?.parse::<u16>().ok()).filter(|port| *port > 0);
            port.ok_or_else(|| wrong("the port is no number from 1 to 65535"))?
        }
    };
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_address_is_used_or_refused() {
        for (address, asked) in [
            ("http://127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080/", "127.0.0.1:8080"),
            ("http://gw-1", "gw-1:80"),
            ("http://[::1]:8080/", "[::1]:8080"),
            ("[::1]", "[::1]:80"),
        ] {
            assert_eq!(authority(AGENT, address, "http").expect(address), asked);
        }
        for (address, reason) in [
            ("http://127.0.0.1:80800", "the port is no number from 1 to 65535"),
            ("127.0.0.1:0", "the port is no number"),
            ("http://gw-1:", "the port is no number"),
            ("http://user:secret@h:8080", "user and password are not sent"),
            ("http://secret@h", "user and password are not sent"),
            ("http://user:secret@h:8080/?x=1", "nothing is expected behind host and port"),
            ("http://h:8080?secret", "nothing is expected behind"),
            ("http://h:8080/#part", "nothing is expected behind"),
            ("https://user:secret@h:8080", "--ca FILE"),
            ("http://h:8080/check", "a path is not expected"),
            ("http://:8080", ""),
        ] {
            let Usage(said) = authority(AGENT, address, "http").expect_err(address);
            assert!(
                said.contains(reason) && said.contains("--agent") && said.contains("http://127.0.0.1:8080"),
                "{said}"
            );
            assert!(!said.contains("user:secret"), "{said}");
        }
    }
}
