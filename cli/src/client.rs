//! HTTP client for a running agent.

use std::time::Duration;

use anyhow::{anyhow, bail};
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::exit::Usage;
use crate::output;

/// Longest answer that is read, in bytes.
const ANSWER_LEN_MAX: usize = 8 << 20;

/// Posts a body to an agent and returns the status and the body of its answer. Returns `None` and prints a message on
/// standard error if no agent answers.
///
/// # Errors
/// If the address is not valid, or the answer is not an agent's.
pub(crate) fn post(
    agent: &str,
    path: &str,
    body: &Value,
    wait: Duration,
) -> anyhow::Result<Option<(StatusCode, Value)>> {
    let authority = authority(agent)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async { tokio::time::timeout(wait, send(&authority, path, body.to_string())).await });
    let (status, body) = match asked.unwrap_or_else(|_| Err(anyhow!("no answer within {} ms", wait.as_millis()))) {
        Ok(answer) => answer,
        Err(error) => {
            output::note(format_args!(
                "error: no agent answers at http://{authority}: {error:#}; start an agent with `tollgate up`, or name another with --agent"
            ));
            return Ok(None);
        }
    };
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let is_answer = matches!(status, StatusCode::OK | StatusCode::TOO_MANY_REQUESTS | StatusCode::FORBIDDEN);
    match body {
        Some(body) if is_answer => Ok(Some((status, body))),
        body => {
            let detail = body.as_ref().and_then(|body| body["detail"].as_str());
            let detail = detail.unwrap_or("this is not the answer of an agent; name one with --agent");
            bail!("http://{authority} answers {status}: {detail}")
        }
    }
}

async fn send(authority: &str, path: &str, body: String) -> anyhow::Result<(StatusCode, Bytes)> {
    let tcp = TcpStream::connect(authority).await?;
    let (mut client, connection) = handshake(TokioIo::new(tcp)).await?;
    tokio::spawn(connection);
    let request = Request::post(path).header(HOST, authority).header(CONTENT_TYPE, "application/json");
    let (parts, body) = client.send_request(request.body(Full::new(Bytes::from(body)))?).await?.into_parts();
    let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok((parts.status, body))
}

/// Returns host:port of `http://host:port`; the scheme may be missing.
fn authority(agent: &str) -> Result<String, Usage> {
    let wrong = |reason: &str| Usage(format!("--agent {agent}: {reason}; write http://127.0.0.1:8080"));
    let with_scheme = if agent.contains("://") { agent.to_owned() } else { format!("http://{agent}") };
    let uri: Uri = with_scheme.parse().map_err(|_| wrong("this is no URL"))?;
    if uri.scheme_str() != Some("http") {
        return Err(wrong("agents are asked over plain HTTP"));
    }
    if !matches!(uri.path(), "" | "/") {
        return Err(wrong("a path is not expected"));
    }
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("the host is missing"))?;
    Ok(format!("{host}:{}", uri.port_u16().unwrap_or(80)))
}
