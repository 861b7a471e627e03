//! Metrics as messages: counters are cumulative sums, gauges and infos are gauges, histograms stay histograms.
//!
//! A metric has the name under which a scraper knows it, so `tollgate_decisions_total` is one name on both ways. A request has at most
//! [`POINTS_LEN_MAX`] points, because collectors refuse long ones; the points of a metric may be in several requests.

use super::exposition::{MetricFamily, MetricSample, families};
use super::messages::{attribute, scope};
use super::proto::opentelemetry::proto::collector::metrics::v1::ExportMetricsServiceRequest;
use super::proto::opentelemetry::proto::common::v1::KeyValue;
use super::proto::opentelemetry::proto::metrics::v1::metric::Data;
use super::proto::opentelemetry::proto::metrics::v1::number_data_point::Value;
use super::proto::opentelemetry::proto::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum,
};
use super::proto::opentelemetry::proto::resource::v1::Resource;

/// Maximum number of points in a request.
const POINTS_LEN_MAX: usize = 10_000;
/// Label of a bucket: its upper bound.
const BOUND: &str = "le";

/// Start of the process and time of the reading, in ns of Unix time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadingTimes {
    pub(super) started: u64,
    pub(super) now: u64,
}

/// Returns the requests that tell the metrics of this OpenMetrics text.
pub(super) fn metric_requests(
    text: &str,
    resource: &Resource,
    times: ReadingTimes,
) -> impl Iterator<Item = ExportMetricsServiceRequest> {
    let (mut requests, mut points) = (Vec::new(), POINTS_LEN_MAX);
    for (metric, len) in families(text).iter().flat_map(|family| metrics(family, times)) {
        if points + len > POINTS_LEN_MAX {
            requests.push(Vec::new());
            points = 0;
        }
        points += len;
        requests.last_mut().expect("it was just added").push(metric);
    }
    requests.into_iter().map(|metrics| {
        let scope_metrics = ScopeMetrics { scope: Some(scope()), metrics };
        let resource = Some(resource.clone());
        let resource_metrics = ResourceMetrics { resource, scope_metrics: vec![scope_metrics] };
        ExportMetricsServiceRequest { resource_metrics: vec![resource_metrics] }
    })
}

/// Returns the metrics of a family and their numbers of points.
fn metrics(family: &MetricFamily, times: ReadingTimes) -> Vec<(Metric, usize)> {
    let temporality = AggregationTemporality::Cumulative.into();
    if family.kind == "histogram" {
        let points = histogram_points(family, times);
        let data = |data_points: &[HistogramDataPoint]| {
            Data::Histogram(Histogram { data_points: data_points.to_vec(), aggregation_temporality: temporality })
        };
        return points.chunks(POINTS_LEN_MAX).map(|points| (metric(family, "", data(points)), points.len())).collect();
    }
    let is_sum = family.kind == "counter";
    let suffix = match &*family.kind {
        "counter" => "_total",
        "info" => "_info",
        _ => "",
    };
    let is_own = |sample: &&MetricSample| sample.name.strip_prefix(&*family.name) == Some(suffix);
    let points: Vec<_> =
        family.samples.iter().filter(is_own).filter_map(|sample| number_point(sample, times)).collect();
    let data = |data_points: &[NumberDataPoint]| {
        let data_points = data_points.to_vec();
        if is_sum {
            Data::Sum(Sum { data_points, aggregation_temporality: temporality, is_monotonic: true })
        } else {
            Data::Gauge(Gauge { data_points })
        }
    };
    points.chunks(POINTS_LEN_MAX).map(|points| (metric(family, suffix, data(points)), points.len())).collect()
}

fn metric(family: &MetricFamily, suffix: &str, data: Data) -> Metric {
    let unit = match &*family.unit {
        "seconds" => "s",
        "bytes" => "By",
        other => other,
    };
    Metric {
        name: format!("{}{suffix}", family.name),
        description: family.help.clone(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

fn number_point(sample: &MetricSample, times: ReadingTimes) -> Option<NumberDataPoint> {
    let whole = || sample.value.parse().map(Value::AsInt).ok();
    let value = whole().or_else(|| sample.value.parse().map(Value::AsDouble).ok())?;
    Some(NumberDataPoint {
        attributes: attributes(&sample.labels),
        start_time_unix_nano: times.started,
        time_unix_nano: times.now,
        value: Some(value),
    })
}

/// Returns the points of a histogram: one for each set of labels. The buckets of the text contain those before them, and the buckets
/// of a point do not.
fn histogram_points(family: &MetricFamily, times: ReadingTimes) -> Vec<HistogramDataPoint> {
    let mut points: Vec<(Vec<&(String, String)>, HistogramDataPoint)> = Vec::new();
    for sample in &family.samples {
        let labels: Vec<_> = sample.labels.iter().filter(|(name, _)| name != BOUND).collect();
        if points.last().is_none_or(|(known, _)| *known != labels) {
            let point = HistogramDataPoint {
                attributes: attributes(labels.iter().copied()),
                start_time_unix_nano: times.started,
                time_unix_nano: times.now,
                ..HistogramDataPoint::default()
            };
            points.push((labels, point));
        }
        let (_, point) = points.last_mut().expect("it was just added");
        match sample.name.strip_prefix(&*family.name) {
            Some("_sum") => point.sum = sample.value.parse().ok(),
            Some("_count") => point.count = sample.value.parse().unwrap_or_default(),
            Some("_bucket") => {
                let upto: u64 = sample.value.parse().unwrap_or_default();
                let before: u64 = point.bucket_counts.iter().sum();
                point.bucket_counts.push(upto.saturating_sub(before));
                let bound = sample.labels.iter().find(|(name, _)| name == BOUND);
                let bound = bound.and_then(|(_, bound)| bound.parse::<f64>().ok());
                // The last bucket has no bound in a message.
                point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
            }
            _ => {}
        }
    }
    points.into_iter().map(|(_, point)| point).collect()
}

fn attributes<'l>(labels: impl IntoIterator<Item = &'l (String, String)>) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| attribute(name, value)).collect()
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::EncodeLabelSet;
    use prometheus_client::metrics::counter::Counter;
    use prometheus_client::metrics::family::Family;
    use prometheus_client::metrics::gauge::Gauge as PrometheusGauge;
    use prometheus_client::metrics::histogram::Histogram as PrometheusHistogram;
    use prometheus_client::registry::{Registry, Unit};

    use super::*;
    use crate::otlp::messages::resource;

    const TIMES: ReadingTimes = ReadingTimes { started: 1, now: 2 };

    #[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
    struct OfRule {
        rule: String,
    }

    fn read(text: &str) -> Vec<Vec<Metric>> {
        let resource = resource("tollgate-agent", "gw-1");
        let requests = metric_requests(text, &resource, TIMES);
        requests.map(|request| request.resource_metrics[0].scope_metrics[0].metrics.clone()).collect()
    }

    /// The text is written by the library that writes `/metrics`.
    #[test]
    fn the_metrics_of_a_registry_keep_names_values_labels_and_units() {
        let mut registry = Registry::default();
        let calls = Family::<OfRule, Counter>::default();
        for (rule, count) in [("per \"key\"", 7), ("all", 3)] {
            calls.get_or_create(&OfRule { rule: rule.to_owned() }).inc_by(count);
        }
        registry.register("calls", "Calls", calls);
        let (held, cpu) = (PrometheusGauge::<i64>::default(), Counter::<f64>::default());
        held.set(-4);
        cpu.inc_by(1.5);
        registry.register_with_unit("held", "Held", Unit::Bytes, held);
        registry.register_with_unit("cpu", "Time", Unit::Seconds, cpu);
        let took = PrometheusHistogram::new([0.5, 1.0]);
        for value in [0.1, 0.2, 0.7, 9.0] {
            took.observe(value);
        }
        registry.register_with_unit("took", "Took", Unit::Seconds, took);
        let text = tollgate_metrics::join([tollgate_metrics::build_info(), tollgate_metrics::encode(&registry)]);

        let requests = read(&text);
        let [metrics] = &requests[..] else { panic!("one request: {requests:?}") };
        let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}"));
        let calls = named("calls_total");
        assert_eq!((&*calls.description, &*calls.unit), ("Calls.", ""));
        let Some(Data::Sum(sum)) = &calls.data else { panic!("{calls:?}") };
        assert!(sum.is_monotonic && sum.aggregation_temporality() == AggregationTemporality::Cumulative);
        let mut points: Vec<_> = sum.data_points.iter().map(|point| (point.attributes.clone(), point.value)).collect();
        points.sort_by_key(|(attributes, _)| format!("{attributes:?}"));
        let expected = [("all", 3), ("per \"key\"", 7)]
            .map(|(rule, count)| (vec![attribute("rule", rule)], Some(Value::AsInt(count))));
        assert_eq!(points, expected);
        assert!(sum.data_points.iter().all(|point| (point.start_time_unix_nano, point.time_unix_nano) == (1, 2)));

        let gauge = |name: &str| {
            let Some(Data::Gauge(gauge)) = &named(name).data else { panic!("{name}") };
            (named(name).unit.clone(), gauge.data_points[0].attributes.clone(), gauge.data_points[0].value)
        };
        assert_eq!(gauge("held_bytes"), ("By".to_owned(), Vec::new(), Some(Value::AsInt(-4))));
        let version = attribute("version", env!("CARGO_PKG_VERSION"));
        assert_eq!(gauge("tollgate_build_info"), (String::new(), vec![version], Some(Value::AsInt(1))));
        let Some(Data::Sum(cpu)) = &named("cpu_seconds_total").data else { panic!("a sum") };
        assert_eq!((&*named("cpu_seconds_total").unit, cpu.data_points[0].value), ("s", Some(Value::AsDouble(1.5))));

        let Some(Data::Histogram(took)) = &named("took_seconds").data else { panic!("a histogram") };
        let [point] = &took.data_points[..] else { panic!("one point: {took:?}") };
        assert_eq!((&*point.bucket_counts, &*point.explicit_bounds), (&[2, 1, 1][..], &[0.5, 1.0][..]));
        assert_eq!((point.count, point.sum), (4, Some(10.0)));
        assert_eq!(metrics.len(), 5);
    }

    #[test]
    fn histograms_with_labels_are_points_of_their_own() {
        let of_rule = |rule: &str, low: u32, all: u32| {
            let labels = format!("rule=\"{rule}\"");
            format!(
                "t_sum{{{labels}}} 2.5\nt_count{{{labels}}} {all}\nt_bucket{{le=\"0.5\",{labels}}} {low}\nt_bucket{{le=\"+Inf\",{labels}}} {all}\n"
            )
        };
        let text = format!("# TYPE t histogram\n{}{}# EOF\n", of_rule("a", 1, 3), of_rule("b", 0, 9));
        let Some(Data::Histogram(histogram)) = read(&text)[0][0].data.clone() else { panic!("a histogram") };
        let points: Vec<_> =
            histogram.data_points.into_iter().map(|point| (point.attributes, point.bucket_counts)).collect();
        let expected = [("a", vec![1, 2]), ("b", vec![0, 9])];
        assert_eq!(points, expected.map(|(rule, counts)| (vec![attribute("rule", rule)], counts)));
    }

    #[test]
    fn a_request_has_a_cap_on_its_points() {
        let mut text = "# TYPE a gauge\na 1\n# TYPE b counter\n".to_owned();
        text.extend((0..2 * POINTS_LEN_MAX).map(|number| format!("b_total{{n=\"{number}\"}} 1\n")));
        text.push_str("# TYPE c gauge\nc 1\n# EOF\n");
        let lens = |metric: &Metric| match &metric.data {
            Some(Data::Sum(sum)) => sum.data_points.len(),
            Some(Data::Gauge(gauge)) => gauge.data_points.len(),
            other => panic!("{other:?}"),
        };
        let requests: Vec<Vec<_>> = read(&text).iter().map(|metrics| metrics.iter().map(lens).collect()).collect();
        assert_eq!(requests, [vec![1], vec![POINTS_LEN_MAX], vec![POINTS_LEN_MAX], vec![1]]);
        assert!(read("# EOF\n").is_empty());
    }
}
