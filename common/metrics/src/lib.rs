//! Text of metrics: joined from the parts of a process, in the format that a scraper accepts.
//!
//! Each part of a process (agent, aggregator, the process itself) encodes its families as OpenMetrics text, so that no part
//! has to know the registry of another one. Scrapers that do not ask for OpenMetrics get the text format 0.0.4, which
//! differs in the metadata only. Left out: exemplars and time stamps, which no part uses. A shared registry was rejected,
//! because it would tie a gateway to one version of one metrics library.

use std::collections::HashMap;
use std::fmt;

use http::HeaderMap;
use http::header::ACCEPT;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Content type of OpenMetrics text.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the older text format of Prometheus.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Last line of OpenMetrics text.
const END: &str = "# EOF\n";

/// Metrics in the format that a scraper accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposition {
    /// Value of the header `Content-Type`.
    pub content_type: &'static str,
    /// Body of the answer.
    pub text: String,
}

/// Name, help text and unit of a metric. The help text ends with a full stop, as the registry ends those of other metrics.
pub struct MetricName(pub &'static str, pub &'static str, pub Option<Unit>);

impl Exposition {
    /// Formats OpenMetrics text for a request with these headers.
    #[must_use]
    pub fn new(headers: &HeaderMap, open_metrics: String) -> Self {
        let accept: Vec<_> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        if accepts_open_metrics(&accept.join(",")) {
            return Self { content_type: OPEN_METRICS, text: open_metrics };
        }
        Self { content_type: TEXT, text: text_format(&open_metrics) }
    }
}

/// Returns `tollgate_build_info`, which shows the version of Tollgate, as OpenMetrics text.
#[must_use]
pub fn build_info() -> String {
    let mut registry = Registry::default();
    let info = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("tollgate_build", "Version of Tollgate in this process", info);
    encode(&registry)
}

/// Returns the metrics of a registry as OpenMetrics text.
#[must_use]
pub fn encode(registry: &Registry) -> String {
    let mut text = String::new();
    let encoded = encode_registry(&mut text, registry).and_then(|()| encode_eof(&mut text));
    encoded.unwrap_or_else(|_| unreachable!("a string takes all text"));
    text
}

/// Encodes a metric without labels.
///
/// # Errors
/// If the encoder's writer fails.
pub fn encode_metric(
    encoder: &mut DescriptorEncoder<'_>,
    MetricName(name, help, unit): MetricName,
    metric: &impl EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit.as_ref(), metric.metric_type())?)
}

/// Joins OpenMetrics texts, of which no two have a series in common. The samples of a family stay together.
#[must_use]
pub fn join(texts: impl IntoIterator<Item = String>) -> String {
    let mut families: Vec<(String, String)> = Vec::new();
    for text in texts {
        let mut family = 0;
        for line in text.trim_end_matches(END).lines() {
            let metadata = line.strip_prefix("# ").and_then(|rest| rest.split(' ').nth(1));
            if let Some(name) = metadata {
                family = families.iter().position(|(known, _)| known == name).unwrap_or(families.len());
                if family == families.len() {
                    families.push((name.to_owned(), String::new()));
                }
            }
            if let Some((_, lines)) = families.get_mut(family)
                && (metadata.is_none() || !lines.contains(line))
            {
                lines.extend([line, "\n"]);
            }
        }
    }
    families.into_iter().map(|(_, lines)| lines).chain([END.to_owned()]).collect()
}

/// Returns true if the headers `Accept` name OpenMetrics with a weight above 0 and not below that of plain text.
fn accepts_open_metrics(accept: &str) -> bool {
    let weight_of = |wanted: &str| {
        let weights = accept.split(',').filter_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_wanted = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(wanted));
            let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1.0, |q| q.parse().unwrap_or(0.0));
            is_wanted.then_some(weight)
        });
        weights.fold(0.0, f64::max)
    };
    let open_metrics = weight_of("application/openmetrics-text");
    open_metrics > 0.0 && open_metrics >= weight_of("text/plain")
}

/// Converts OpenMetrics text: in the text format 0.0.4, the metadata of a counter and of an info have the name of its
/// samples.
fn text_format(open_metrics: &str) -> String {
    let types = open_metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let types: HashMap<&str, &str> = types.collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let metadata = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        let named = metadata.and_then(|(keyword, rest)| Some((keyword, rest.split_once(' ')?)));
        let converted = match named {
            Some((keyword @ ("HELP" | "TYPE"), (name, value))) => {
                let (suffix, kind) = match types.get(name).copied() {
                    Some("counter") => ("_total", "counter"),
                    Some("info") => ("_info", "gauge"),
                    Some("unknown") | None => ("", "untyped"),
                    Some(kind) => ("", kind),
                };
                format!("# {keyword} {name}{suffix} {}\n", if keyword == "TYPE" { kind } else { value })
            }
            _ if line.starts_with('#') => continue,
            _ => format!("{line}\n"),
        };
        text.push_str(&converted);
    }
    text
}

#[cfg(test)]
mod tests {
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::gauge::Gauge;

    use super::*;

    #[test]
    fn the_format_follows_the_header_accept() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let cases = [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0", true),
            (prometheus, true),
            ("text/plain;q=0.5, application/openmetrics-text;q=0.3", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=x", false),
        ];
        for (accept, expected) in cases {
            assert_eq!(accepts_open_metrics(accept), expected, "{accept}");
        }
    }

    #[test]
    fn the_parts_of_a_process_are_one_text_in_both_formats() {
        let (mut first, mut second) = (Registry::default(), Registry::default());
        first.register_with_unit("cpu", "Time", Unit::Seconds, Counter::<f64>::default());
        second.register("held", "Held", Gauge::<i64>::default());
        let text = join([build_info(), encode(&first), encode(&second)]);
        let info = format!("tollgate_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        let open_metrics = format!(
            "# HELP tollgate_build Version of Tollgate in this process.\n# TYPE tollgate_build info\n{info}\n\
             # HELP cpu_seconds Time.\n# TYPE cpu_seconds counter\n# UNIT cpu_seconds seconds\ncpu_seconds_total 0.0\n\
             # HELP held Held.\n# TYPE held gauge\nheld 0\n# EOF\n"
        );
        assert_eq!(text, open_metrics);
        let older = format!(
            "# HELP tollgate_build_info Version of Tollgate in this process.\n# TYPE tollgate_build_info gauge\n{info}\n\
             # HELP cpu_seconds_total Time.\n# TYPE cpu_seconds_total counter\ncpu_seconds_total 0.0\n\
             # HELP held Held.\n# TYPE held gauge\nheld 0\n"
        );
        assert_eq!(Exposition::new(&HeaderMap::new(), text), Exposition { content_type: TEXT, text: older });
    }
}
