//! HTTP client for a running agent or aggregator.

mod tls_client_args;
mod address;

use std::time::Duration;

use anyhow::{anyhow, bail};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap};
use http::{Request, StatusCode, request};
use http_body_util::Full;
use hyper::body::Bytes;
use serde_json::Value;
use tokio::net::{TcpStream, UnixStream};
use tollgate_command::exit::Usage;
use tollgate_command::output;

use crate::http_exchange::send_over;
use address::{AGENT, AGGREGATOR, EITHER, Server, Target, target};
pub(crate) use tls_client_args::TlsClientArgs;

/// Part of the answers of an agent with `--admin` to a path of its other address.
const ON_OTHER_ADDRESS: &str = "on the address of --";

/// Agent that is asked.
pub(crate) struct AskedAgent<'a> {
    pub(crate) address: &'a str,
    /// Flag with the address.
    pub(crate) flag: &'static str,
    pub(crate) tls: &'a TlsClientArgs,
    pub(crate) wait: Duration,
    /// Remedy if the address has other paths only: an agent with `--admin` has two addresses.
    pub(crate) elsewhere: &'static str,
}

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

/// Returns true if an answer of this status and body has what its command shows. Any other one is of another program.
pub(crate) type IsExpected = fn(StatusCode, &Value) -> bool;

/// Request, and the answer that is expected.
struct Question {
    request: request::Builder,
    body: String,
    is_expected: IsExpected,
}

impl Question {
    fn get(path: &str, is_expected: IsExpected) -> Self {
        Self { request: Request::get(path), body: String::new(), is_expected }
    }

    fn post(path: &str, body: &Value, is_expected: IsExpected) -> Self {
        let request = Request::post(path).header(CONTENT_TYPE, "application/json");
        Self { request, body: body.to_string(), is_expected }
    }
}

impl AskedAggregator {
    /// Returns the aggregator at an address.
    ///
    /// # Errors
    /// If the address is not valid.
    pub(crate) fn new(address: &str, tls: &TlsClientArgs) -> Result<Self, Usage> {
        let target = target(AGGREGATOR, address, tls)?;
        Ok(Self { url: target.to_string(), target })
    }

    /// Returns the body at a path.
    ///
    /// # Errors
    /// If nobody answers in time, or the answer is not that of an aggregator.
    pub(crate) async fn get(&self, path: &str, is_expected: IsExpected, wait: Duration) -> Result<Value, NoAnswer> {
        let (_, _, body) = exchange(AGGREGATOR, &self.target, Question::get(path, is_expected), wait).await?;
        Ok(body)
    }
}

impl AskedAgent<'_> {
    /// Posts a body, and returns status, headers and body of the answer. Returns `None` and prints a message on standard error if no
    /// agent answers.
    ///
    /// # Errors
    /// If the address is not valid, or the answer is not an agent's.
    pub(crate) fn post(
        &self,
        path: &str,
        body: &Value,
        is_expected: IsExpected,
    ) -> anyhow::Result<Option<AnsweredRequest>> {
        let server = Server { flag: self.flag, elsewhere: self.elsewhere, ..AGENT };
        ask(server, (self.address, self.tls), Question::post(path, body, is_expected), self.wait)
    }
}

/// Returns the body at a path of an aggregator. Returns `None` and prints a message on standard error if none answers.
///
/// # Errors
/// If the address is not valid, or the answer is not an aggregator's.
pub(crate) fn get(
    aggregator: &str,
    tls: &TlsClientArgs,
    path: &str,
    is_expected: IsExpected,
    wait: Duration,
) -> anyhow::Result<Option<Value>> {
    let answer = ask(AGGREGATOR, (aggregator, tls), Question::get(path, is_expected), wait)?;
    Ok(answer.map(|(_, _, body)| body))
}

/// Posts a body to an aggregator, with the token of operators if there is one, and returns the body of its answer. Returns `None`
/// and prints a message on standard error if none answers.
///
/// # Errors
/// If the address is not valid, or the aggregator refuses.
pub(crate) fn post_to_aggregator(
    aggregator: &str,
    (tls, token): (&TlsClientArgs, Option<&str>),
    (path, body): (&str, &Value),
    is_expected: IsExpected,
    wait: Duration,
) -> anyhow::Result<Option<Value>> {
    let mut question = Question::post(path, body, is_expected);
    if let Some(token) = token {
        question.request = question.request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    Ok(ask(AGGREGATOR, (aggregator, tls), question, wait)?.map(|(_, _, body)| body))
}

/// Returns the readiness of an agent or aggregator. Returns `None` and prints a message on standard error if none answers.
///
/// # Errors
/// If the answer is of another program.
pub(crate) fn ready(address: &str, tls: &TlsClientArgs, wait: Duration) -> anyhow::Result<Option<Value>> {
    let is_expected = |status, body: &Value| match status {
        StatusCode::OK => body["ready"] == true,
        _ => status == StatusCode::SERVICE_UNAVAILABLE && body["ready"] == false,
    };
    let answer = ask(EITHER, (address, tls), Question::get("/readyz", is_expected), wait)?;
    Ok(answer.map(|(_, _, body)| body))
}

/// Returns true for an admission, and for a denial in either form. The status of a denial may be the rule's own.
pub(crate) fn is_decision(status: StatusCode, body: &Value) -> bool {
    match status {
        StatusCode::OK => body["allowed"] == true,
        _ => !status.is_success() && (body["allowed"] == false || body["error"]["code"] == "RATE_LIMIT_EXCEEDED"),
    }
}

/// Returns true for the answer of `/explain`.
pub(crate) fn is_explanation(status: StatusCode, body: &Value) -> bool {
    status == StatusCode::OK && body["rules"].is_array() && body["descriptors"].is_array()
}

fn ask(
    server: Server,
    (address, tls): (&str, &TlsClientArgs),
    question: Question,
    wait: Duration,
) -> anyhow::Result<Option<AnsweredRequest>> {
    let target = target(server, address, tls)?;
    let Server { name, flag, start, .. } = server;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match runtime.block_on(exchange(server, &target, question, wait)) {
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
    Question { request, body, is_expected }: Question,
    wait: Duration,
) -> Result<AnsweredRequest, NoAnswer> {
    let host = if let Target::Tcp(authority) | Target::Tls(authority, _) = target { authority } else { "localhost" };
    let request = request.header(HOST, host).body(Full::new(Bytes::from(body)));
    let request = request.map_err(|error| NoAnswer::Refused(format!("the request cannot be sent: {error}")))?;
    let asked = tokio::time::timeout(wait, send(target, request)).await;
    let asked = asked.unwrap_or_else(|_| Err(anyhow!("no answer within {} ms", wait.as_millis())));
    let (status, headers, body) = asked.map_err(|error| no_answer(target, &error))?;
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    match body {
        Some(body) if is_expected(status, &body) => Ok((status, headers, body)),
        body => {
            let Server { name, flag, elsewhere, .. } = server;
            let foreign =
                || format!("this is not the answer of an {name} that this command expects; name one with {flag}");
            let detail = match body.as_ref().and_then(|body| body["detail"].as_str()) {
                Some(detail) if detail.contains(ON_OTHER_ADDRESS) && !elsewhere.is_empty() => {
                    format!("{detail}; {elsewhere}")
                }
                Some(detail) => detail.to_owned(),
                None => foreign(),
            };
            Err(NoAnswer::Refused(format!("{target} answers {status}: {detail}")))
        }
    }
}

/// Returns the reason for which there is no answer.
fn no_answer(target: &Target, error: &anyhow::Error) -> NoAnswer {
    match target {
        Target::Tls(_, tls) if tls.lacks_certificate() => NoAnswer::Refused(format!(
            "{target} asks for a certificate of the client; add --cert FILE and --key FILE, of an issuer in its --tls-client-ca"
        )),
        _ => NoAnswer::Silent(format!("{error:#}")),
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
