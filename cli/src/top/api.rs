//! Questions to the API of an aggregator, and its answers.

use std::time::Duration;

use clap::ValueEnum;
use http::StatusCode;
use serde_json::{Value, json};
use tollgate_command::exit::Usage;

use crate::client::{AskedAggregator, IsExpected, NoAnswer, TlsClientArgs};

/// Addresses that are asked if none is given: an aggregator, and `tollgate up`.
const DEFAULT_ADDRESSES: [&str; 2] = ["127.0.0.1:8090", "127.0.0.1:8080"];
/// Maximum time for an answer.
const WAIT: Duration = Duration::from_secs(2);
/// Number of callers that are asked for, through which a person scrolls.
const CALLERS_MAX: usize = 200;
/// Number of seconds of the series.
pub(super) const SECONDS: usize = 60;
/// Age of a second whose calls have arrived, in ms.
pub(super) const CLOSED_AFTER_MS: u64 = 2_000;

/// Order of the callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TopOrder {
    /// Most denied calls first
    Denied,
    /// Most calls first
    Calls,
    /// Largest used part of the quota first
    Near,
    /// Newest first denial first
    New,
}

impl TopOrder {
    fn parameter(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Calls => "calls",
            Self::Near => "near",
            Self::New => "new",
        }
    }
}

/// Part of the analytics that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TopQuestion {
    pub(super) order: TopOrder,
    pub(super) rule: Option<String>,
    pub(super) minutes: u8,
}

/// Answers of an aggregator, as they came.
#[derive(Clone, Debug, Default)]
pub(super) struct TopData {
    pub(super) url: String,
    pub(super) status: Value,
    pub(super) series: Value,
    pub(super) rules: Value,
    pub(super) callers: Value,
    pub(super) agents: Value,
}

impl TopData {
    pub(super) fn to_json(&self) -> Value {
        json!({
            "url": self.url,
            "status": self.status,
            "series": self.series,
            "rules": self.rules["rules"],
            "callers": self.callers,
            "agents": self.agents["agents"],
        })
    }
}

/// Aggregators that may be asked; the first that answers is asked from then on.
pub(super) struct Aggregators {
    candidates: Vec<AskedAggregator>,
}

impl Aggregators {
    pub(super) fn new(address: Option<&str>, tls: &TlsClientArgs) -> Result<Self, Usage> {
        let addresses = address.map_or(DEFAULT_ADDRESSES.to_vec(), |address| vec![address]);
        let candidates = addresses.into_iter().map(|address| AskedAggregator::new(address, tls));
        Ok(Self { candidates: candidates.collect::<Result<_, _>>()? })
    }

    /// Asks for one frame.
    ///
    /// # Errors
    /// If nobody answers, with each address and reason, or if an answer is a refusal.
    pub(super) async fn ask(&mut self, question: &TopQuestion) -> Result<TopData, NoAnswer> {
        let mut reasons = Vec::new();
        for place in 0..self.candidates.len() {
            let asked = &self.candidates[place];
            match asked
                .get("/api/v1/status", |status, body| is_ok_with(status, &body["now_ms"], Value::is_u64), WAIT)
                .await
            {
                Ok(status) => {
                    let data = ask_for(asked, question, status).await?;
                    self.candidates.swap(0, place);
                    self.candidates.truncate(1);
                    return Ok(data);
                }
                Err(NoAnswer::Silent(why)) => reasons.push(format!("{} ({why})", asked.url)),
                // Another program may have the port of an aggregator.
                Err(NoAnswer::Refused(_)) if place + 1 < self.candidates.len() => {}
                Err(refused) => return Err(refused),
            }
        }
        Err(NoAnswer::Silent(reasons.join(" or ")))
    }
}

async fn ask_for(asked: &AskedAggregator, question: &TopQuestion, status: Value) -> Result<TopData, NoAnswer> {
    let TopQuestion { order, rule, minutes } = question;
    let now_ms = status["now_ms"].as_u64().unwrap_or_default();
    let from_ms = now_ms.saturating_sub(CLOSED_AFTER_MS + 1_000 * SECONDS as u64);
    let of_rule = rule.as_deref().map_or_else(String::new, |rule| format!("&rule={}", escaped(rule)));
    let order = order.parameter();
    let get = async |path: String, is_expected: IsExpected| asked.get(&path, is_expected, WAIT).await;
    Ok(TopData {
        url: asked.url.clone(),
        series: get(format!("/api/v1/series?step=1s&from_ms={from_ms}{of_rule}"), |status, body| {
            is_ok_with(status, &body["points"], Value::is_array)
        })
        .await?,
        rules: get("/api/v1/rules".to_owned(), |status, body| is_ok_with(status, &body["rules"], Value::is_array))
            .await?,
        callers: get(
            format!("/api/v1/callers?sort={order}&minutes={minutes}&limit={CALLERS_MAX}{of_rule}"),
            |status, body| is_ok_with(status, &body["callers"], Value::is_array),
        )
        .await?,
        agents: get("/api/v1/agents".to_owned(), |status, body| is_ok_with(status, &body["agents"], Value::is_array))
            .await?,
        status,
    })
}

/// Returns true if an answer is a success and its field is of this type.
fn is_ok_with(status: StatusCode, field: &Value, is_of_type: fn(&Value) -> bool) -> bool {
    status == StatusCode::OK && is_of_type(field)
}

/// Escapes a value of a query (RFC 3986, 2.3).
fn escaped(value: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_rule_is_escaped() {
        for (name, expected) in [("per-key", "per-key"), ("a b&c=d", "a%20b%26c%3Dd"), ("é\n", "%C3%A9%0A")] {
            assert_eq!(escaped(name), expected);
        }
    }

    #[test]
    fn without_an_address_both_ports_are_candidates_also_over_tls() {
        let urls = |address| {
            let aggregators = Aggregators::new(address, &TlsClientArgs::default()).expect("addresses");
            aggregators.candidates.into_iter().map(|asked| asked.url).collect::<Vec<_>>()
        };
        assert_eq!(urls(None), ["http://127.0.0.1:8090", "http://127.0.0.1:8080"]);
        assert_eq!(urls(Some("http://gw-1:81")), ["http://gw-1:81"]);
    }
}
