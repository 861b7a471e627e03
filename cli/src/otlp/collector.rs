//! A collector to which one kind of messages is sent, and the log lines on its state.
//!
//! Each message has a connection of its own. An idle connection could break unseen, and the message on it would look refused.

use std::time::Duration;

use anyhow::anyhow;
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, StatusCode};
use http_body_util::Full;
use hyper::body::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::collector_url::CollectorUrl;
use crate::http_exchange::send_over;

/// Time after which a message counts as not delivered.
const SEND_WAIT: Duration = Duration::from_secs(5);

/// Kind of messages.
#[derive(Clone, Copy, Debug)]
pub(super) enum Telemetry {
    Spans,
    Metrics,
}

/// Result of a message.
pub(super) enum Delivery {
    /// The collector has taken it, and answered with this body.
    Taken(Bytes),
    /// It may be sent again later.
    Late,
    /// The collector does not want it.
    Refused,
}

/// Collector for one kind of messages.
pub(super) struct Collector {
    url: CollectorUrl,
    telemetry: Telemetry,
    /// Sentence on the state, logged if the collector takes no message.
    consequence: String,
    /// False since a message was not taken.
    takes: bool,
}

impl Telemetry {
    /// Last part of the path of the protocol.
    fn path(self) -> &'static str {
        match self {
            Self::Spans => "traces",
            Self::Metrics => "metrics",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Spans => "spans",
            Self::Metrics => "metrics",
        }
    }
}

impl Collector {
    /// Creates a collector that is believed to take messages. `consequence` tells what becomes of messages that it does not take.
    pub(super) fn new(url: CollectorUrl, telemetry: Telemetry, consequence: String) -> Self {
        Self { url, telemetry, consequence, takes: true }
    }

    /// Sends a message, and logs a change of the collector's state.
    pub(super) async fn send(&mut self, message: Vec<u8>) -> Delivery {
        let sent = timeout(SEND_WAIT, self.post(message)).await;
        let sent = sent.unwrap_or_else(|_| Err(anyhow!("no answer within {} s", SEND_WAIT.as_secs())));
        let (delivery, fault) = match sent {
            Ok((status, body)) if status.is_success() => (Delivery::Taken(body), None),
            Ok((status, _)) => {
                let delivery = if is_passing(status) { Delivery::Late } else { Delivery::Refused };
                (delivery, Some(format!("it answers {status}")))
            }
            Err(error) => (Delivery::Late, Some(format!("{error:#}"))),
        };
        self.tell(fault.as_deref());
        delivery
    }

    async fn post(&self, message: Vec<u8>) -> anyhow::Result<(StatusCode, Bytes)> {
        let CollectorUrl { authority, path } = &self.url;
        let request = Request::post(format!("{path}/v1/{}", self.telemetry.path()))
            .header(HOST, authority)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(Bytes::from(message)))?;
        let stream = TcpStream::connect(authority).await?;
        let (status, _, body) = send_over(stream, request).await?;
        Ok((status, body))
    }

    /// Logs that messages are not taken, or are taken again, once for each change.
    fn tell(&mut self, fault: Option<&str>) {
        let (url, name, had_fault) = (&self.url, self.telemetry.name(), !self.takes);
        self.takes = fault.is_none();
        match fault {
            Some(fault) if !had_fault => tracing::warn!(
                "--otlp: {url} does not take {name}: {fault}; start a collector there that receives OTLP over HTTP, or correct --otlp; {}, and no call waits for it",
                self.consequence
            ),
            None if had_fault => tracing::info!("--otlp: {url} takes {name} again"),
            _ => {}
        }
    }
}

/// Returns true for an answer after which the protocol demands another attempt.
fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}
