//! `tollgate check`: asks a running agent, for scripts and for those who want to know.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::builder::NonEmptyStringValueParser;
use http::header::{CONTENT_TYPE, HOST};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;
use tollgate_common::rule::parse_duration_ms;

use crate::exit::{Exit, Usage};
use crate::output::{self, Format};

/// The longest answer that is read, in bytes.
const ANSWER_LEN_MAX: usize = 64 << 10;

/// Asks a running agent whether a call may pass
///
/// Exit code: 0 allowed, 3 denied, 4 nobody answered.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What the call is, such as user=u1 endpoint=/search
    #[arg(required = true, value_name = "NAME=VALUE", value_parser = descriptor)]
    descriptors: Vec<(String, String)>,
    /// How many units of its quotas the call takes
    #[arg(long, value_name = "UNITS", env = "TOLLGATE_COST", hide_env_values = true, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=tollgate_sidecar::COST_MAX))]
    cost: u64,
    /// Whom to ask
    #[arg(long, value_name = "URL", env = "TOLLGATE_AGENT", hide_env_values = true, default_value = "http://127.0.0.1:8080", value_parser = NonEmptyStringValueParser::new())]
    agent: String,
    /// How long to wait for an answer
    #[arg(long, value_name = "DURATION", env = "TOLLGATE_TIMEOUT", hide_env_values = true, default_value = "2s", value_parser = duration)]
    timeout: Duration,
    /// How to print the answer
    #[arg(long, env = "TOLLGATE_FORMAT", hide_env_values = true, default_value = "text")]
    format: Format,
}

/// What came back.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let authority = authority(&args.agent)?;
    let descriptors: Map<String, Value> =
        args.descriptors.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    if descriptors.len() < args.descriptors.len() {
        bail!(Usage("a descriptor is given twice; a call has one value of each".to_owned()));
    }
    let body = json!({ "descriptors": descriptors, "cost": args.cost }).to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(async { tokio::time::timeout(args.timeout, ask(&authority, body)).await });
    let asked = asked.unwrap_or_else(|_| Err(anyhow!("no answer within {} ms", args.timeout.as_millis())));
    match asked {
        Ok(answer) => judge(args, &authority, &answer),
        Err(error) => {
            eprintln!(
                "error: nobody answers at http://{authority}: {error:#}; start an agent with `tollgate up`, or name another with --agent"
            );
            Ok(Exit::Unanswered)
        }
    }
}

async fn ask(authority: &str, body: String) -> anyhow::Result<Answer> {
    let tcp = TcpStream::connect(authority).await?;
    let (mut client, connection) = handshake(TokioIo::new(tcp)).await?;
    tokio::spawn(connection);
    let request = Request::post("/check").header(HOST, authority).header(CONTENT_TYPE, "application/json");
    let (parts, body) = client.send_request(request.body(Full::new(Bytes::from(body)))?).await?.into_parts();
    let body = Limited::new(body, ANSWER_LEN_MAX).collect().await;
    let body = body.map_err(|error| anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok(Answer { status: parts.status, body })
}

fn judge(args: &Args, authority: &str, answer: &Answer) -> anyhow::Result<Exit> {
    let body: Option<Value> = serde_json::from_slice(&answer.body).ok();
    let allowed = body.as_ref().and_then(|body| body["allowed"].as_bool());
    let exit = match (answer.status, allowed) {
        (StatusCode::OK, Some(true)) => Exit::Done,
        (StatusCode::TOO_MANY_REQUESTS, Some(false)) => Exit::Denied,
        _ => {
            let detail = body.as_ref().and_then(|body| body["detail"].as_str());
            let detail = detail.unwrap_or("this is not how an agent answers; is it one? Name another with --agent");
            bail!("http://{authority} answers {}: {detail}", answer.status);
        }
    };
    let body = body.context("the answer has no body")?;
    match args.format {
        Format::Json => output::say(body)?,
        Format::Text => output::say(words(&body))?,
    }
    Ok(exit)
}

/// The answer for people.
fn words(body: &Value) -> String {
    let number = |name: &str| body[name].as_u64();
    let text = |name: &str| body[name].as_str();
    let mut words = if body["allowed"] == true { "allowed".to_owned() } else { "denied".to_owned() };
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(words, "\n{name:<13}{value}");
        }
    };
    line("rule", Some(text("rule").unwrap_or("none limits this call").to_owned()));
    line(
        "remaining",
        number("remaining").zip(number("limit")).map(|(remaining, limit)| format!("{remaining} of {limit}")),
    );
    line("retry after", number("retry_after_ms").filter(|ms| *ms > 0).map(seconds));
    line("all free in", number("reset_ms").map(seconds));
    line("source", text("source").map(str::to_owned));
    line("id", text("id").map(str::to_owned));
    words
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03} s", ms / 1_000, ms % 1_000)
}

/// `http://host:port`, or the part after the slashes.
fn authority(agent: &str) -> Result<String, Usage> {
    let wrong = |why: &str| Usage(format!("--agent {agent}: {why}; write http://127.0.0.1:8080"));
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

pub(crate) fn descriptor(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as api_key=k1".to_owned()),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text).filter(|ms| *ms > 0);
    ms.map(Duration::from_millis).ok_or_else(|| "write a duration, such as 500ms or 2s".to_owned())
}
