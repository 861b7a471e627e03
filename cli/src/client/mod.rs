//! HTTP client for a running agent or aggregator.

mod address;

use std::path::Path;
use std::time::Duration;

use anyhow::{anyhow, bail};
use http::header::{CONTENT_TYPE, HOST, HeaderMap};
use http::{Request, StatusCode, request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tollgate_command::exit::Usage;
use tollgate_command::output;

use address::{AGENT, AGGREGATOR, EITHER, Server, Target, target};

/// Longest answer that is read, in bytes.
const ANSWER_LEN_MAX: usize = 8 << 20;

/// Aggregator that is asked several times.
pub(crate) struct AskedAggregator {
    target: Target,
    /// Address as a URL.
    pub(crate) url: String,
}

/// Reason why there is no answer that can be used.
pub(crate) enum NoAnswer {
    /// Nobody answers.
    Silent(String),
    /// The answer is a refusal, or that of another program.
    Refused(String),
}

/// Status, headers and body of an answer.
type AnsweredRequest = (StatusCode, HeaderMap, Value);

impl AskedAggregator {
    /// Returns the aggregator at an address, which is asked over TLS with `ca`.
    ///
    /// # Errors
    /// If the address is not valid.
    pub(crate) fn new(address: &str, ca: Option<&Path>) -> Result<Self, Usage> {
        let target = target(AGGREGATOR, address, ca)?;
        Ok(Self { url: target.to_string(), target })
    }

    /// Returns the body at a path.
    ///
    /// # Errors
    /// If nobody answers in time, or the answer is not that of an aggregator.
    pub(crate) async fn get(&self, path: &str, wait: Duration) -> Result<Value, NoAnswer> {
        let (_, _, body) = exchange(AGGREGATOR, &self.target, Request::get(path), String::new(), wait).await?;
        Ok(body)
    }
}

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
    Ok(post_for_headers(agent, ca, path, body, wait)?.map(|(status, _, body)| (status, body)))
}

/// Posts a body to an agent as [`post`] does, and also returns the headers of its answer.
///
/// # Errors
/// As [`post`].
pub(crate) fn post_for_headers(
    agent: &str,
    ca: Option<&Path>,
    path: &str,
    body: &Value,
    wait: Duration,
) -> anyhow::Result<Option<AnsweredRequest>> {
    let request = Request::post(path).header(CONTENT_TYPE, "application/json");
    ask(AGENT, (agent, ca), request, body.to_string(), wait)
}

/// Returns the body at a path of an aggregator, over TLS with `ca`. Returns `None` and prints a message on standard error if none answers.
///
/// # Errors
/// If the address is not valid, or the answer is not an aggregator's.
pub(crate) fn get(aggregator: &str, ca: Option<&Path>, path: &str, wait: Duration) -> anyhow::Result<Option<Value>> {
    let answer = ask(AGGREGATOR, (aggregator, ca), Request::get(path), String::new(), wait)?;
    Ok(answer.map(|(_, _, body)| body))
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
    Ok(ask(AGGREGATOR, (aggregator, ca), request, body.to_string(), wait)?.map(|(_, _, body)| body))
}

/// Returns the readiness of an agent or aggregator. Returns `None` and prints a message on standard error if none answers.
///
/// # Errors
/// If the answer is of another program.
pub(crate) fn ready(address: &str, ca: Option<&Path>, wait: Duration) -> anyhow::Result<Option<Value>> {
    let answer = ask(EITHER, (address, ca), Request::get("/readyz"), String::new(), wait)?;
    Ok(answer.map(|(_, _, body)| body))
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
) -> anyhow::Result<Option<AnsweredRequest>> {
    let target = target(server, address, ca)?;
    let Server { name, flag, start } = server;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(exchange(server, &target, request, body, wait)) {
        Ok(answered) => Ok(Some(answered)),
        Err(NoAnswer::Refused(why)) => bail!(why),
        Err(NoAnswer::Silent(why)) => {
            output::note(format_args!(
                "error: no {name} answers at {target}: {why}; {start}, or name another with {flag}"
            ));
            Ok(None)
        }
    }
}

async fn exchange(
    server: Server,
    target: &Target,
    request: request::Builder,
    body: String,
    wait: Duration,
) -> Result<AnsweredRequest, NoAnswer> {
    let host = if let Target::Tcp(authority) | Target::Tls(authority, _) = target { authority } else { "localhost" };
    let request = request.header(HOST, host).body(Full::new(Bytes::from(body)));
    let request = request.map_err(|error| NoAnswer::Refused(format!("the request cannot be sent: {error}")))?;
    let asked = tokio::time::timeout(wait, send(target, request)).await;
    let asked = asked.unwrap_or_else(|_| Err(anyhow!("no answer within {} ms", wait.as_millis())));
    let (status, headers, body) = asked.map_err(|error| NoAnswer::Silent(format!("{error:#}")))?;
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let is_answer = |body: &Value| match status {
        StatusCode::OK | StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN => true,
        _ if is_denial(body) => true,
        StatusCode::SERVICE_UNAVAILABLE => body["ready"] == false,
        _ => false,
    };
    match body {
        Some(body) if is_answer(&body) => Ok((status, headers, body)),
        body => {
            let Server { name, flag, .. } = server;
            let detail = body.as_ref().and_then(|body| body["detail"].as_str()).map(str::to_owned);
            let detail = detail.unwrap_or_else(|| format!("this is not the answer of an {name}; name one with {flag}"));
            Err(NoAnswer::Refused(format!("{target} answers {status}: {detail}")))
        }
    }
}

async fn send(target: &Target, request: Request<Full<Bytes>>) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
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
) -> anyhow::Result<(StatusCode, HeaderMap, Bytes)> {
    let (mut client, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let (parts, body) = client.send_request(request).await?.into_parts();
    let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok((parts.status, parts.headers, body))
}
