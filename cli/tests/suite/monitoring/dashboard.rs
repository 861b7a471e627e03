//! Dashboard of Grafana: each of its queries returns data of a fleet with traffic.

use std::collections::BTreeSet;

use serde_json::Value;

use super::watched_fleet::WatchedFleet;
use super::{RULES, deployed};
use crate::compose::file::{Compose, Service};
use crate::support::wait_for;

const DASHBOARD: &str = include_str!("../../../../deploy/grafana/tollgate.json");
/// Variables of the dashboard, and their values for Prometheus.
const VARIABLES: [(&str, &str); 2] = [("$__rate_interval", "20s"), ("$instance", ".*")];

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no {key}: {value}"))
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_else(|| panic!("no {key}: {value}"))
}

/// Returns the titles of the panels with their queries, as title, query and legend.
fn queries(dashboard: &Value) -> Vec<(&str, String, &str)> {
    let panels = list(dashboard, "panels").iter().filter(|panel| panel["type"] != "row");
    let targets = panels.flat_map(|panel| list(panel, "targets").iter().map(|target| (text(panel, "title"), target)));
    let queries = targets.map(|(title, target)| {
        let query =
            VARIABLES.iter().fold(text(target, "expr").to_owned(), |query, (name, value)| query.replace(name, value));
        assert!(!query.contains('$'), "{title}: an unknown variable in {query}");
        (title, query, text(target, "legendFormat"))
    });
    queries.collect()
}

/// Returns the metrics of Tollgate that a text names.
fn metrics(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tollgate_") || word.starts_with("process_")).collect()
}

/// Returns true if a sample is a number.
fn is_number(sample: &Value) -> bool {
    sample["value"][1].as_str().is_some_and(|value| value != "NaN")
}

/// L2: Prometheus accepts every query of the dashboard and returns numbers, with the labels that the legend shows. It also
/// has every metric that an alert names.
#[test]
fn l2_every_query_of_the_dashboard_returns_data() {
    let dashboard = dashboard();
    WatchedFleet::start("dashboard").during_traffic(|watched| {
        for (title, query, legend) in queries(&dashboard) {
            let samples = wait_for(&format!("data of {title}: {query}"), || {
                let samples = watched.samples(&query);
                samples.iter().any(is_number).then_some(samples)
            });
            for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
                assert!(
                    samples.iter().all(|sample| sample["metric"][label].is_string()),
                    "{title}: no {label}: {samples:?}"
                );
            }
        }
        let agents = text(&list(&dashboard["templating"], "list")[1]["query"], "query");
        let metric = agents.strip_prefix("label_values(").and_then(|query| query.strip_suffix(", instance)"));
        let instances = watched.samples(metric.expect("instances of a metric"));
        let instances: BTreeSet<&str> = instances.iter().map(|sample| text(&sample["metric"], "instance")).collect();
        assert_eq!(instances, watched.agent_names().iter().map(String::as_str).collect());
        for metric in metrics(RULES) {
            assert!(!watched.samples(metric).is_empty(), "an alert names {metric}, which nobody exports");
        }
    });
}

/// L2: panels have their own numbers and places, and all of them ask the source that the reader selects.
#[test]
fn l2_panels_have_their_own_places_and_the_selected_source() {
    let dashboard = dashboard();
    let panels = list(&dashboard, "panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len());
    let mut taken = BTreeSet::new();
    for panel in panels {
        let [x, y, width, height] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect("a number"));
        assert!(x + width <= 24, "{panel}");
        for place in (x..x + width).flat_map(|x| (y..y + height).map(move |y| (x, y))) {
            assert!(taken.insert(place), "two panels at {place:?}: {}", text(panel, "title"));
        }
        if panel["type"] != "row" {
            for asks in list(panel, "targets").iter().chain([panel]) {
                assert_eq!(asks["datasource"]["uid"], "${datasource}", "{panel}");
            }
        }
    }
    let variables: Vec<&str> =
        list(&dashboard["templating"], "list").iter().map(|variable| text(variable, "name")).collect();
    assert_eq!(variables, ["datasource", "instance"]);
}

/// L2: Prometheus of docker-compose.yml reads each agent and aggregator that always starts, and Grafana asks this Prometheus.
#[test]
fn l2_the_compose_file_connects_the_dashboard_to_all_processes() {
    let root = deployed().join("..");
    let read = |path: &str| std::fs::read_to_string(deployed().join(path)).unwrap();
    let compose = Compose::read(&root);
    let is_scraped =
        |service: &Service<'_>| service.profiles().is_empty() && service.environment().contains_key("TOLLGATE_NODE");
    let scraped = compose.services().into_iter().filter(is_scraped);
    let scraped: BTreeSet<String> =
        scraped.map(|service| format!("{}:{}", service.name, service.listens_on().expect("a port"))).collect();
    let config = read("prometheus/prometheus.yaml");
    let (_, targets) = config.split_once("targets: [").expect("targets");
    let targets = targets.split(']').next().unwrap_or_default().split('"').skip(1).step_by(2);
    assert_eq!(targets.map(ToOwned::to_owned).collect::<BTreeSet<_>>(), scraped);

    let (prometheus, grafana) = (compose.service("prometheus"), compose.service("grafana"));
    let url = format!("url: http://prometheus:{}\n", prometheus.listens_on().expect("a port"));
    assert!(read("grafana/datasource.yaml").contains(&url), "{url}");
    let mounted = |service: &Service<'_>, target: &str| {
        let volume = service.volumes().into_iter().find(|volume| volume.target == target);
        volume.and_then(|volume| volume.file).unwrap_or_else(|| panic!("nothing is mounted at {target}"))
    };
    let folder = mounted(&prometheus, "/etc/prometheus");
    assert!(prometheus.command().contains(&"--config.file=/etc/prometheus/prometheus.yaml".to_owned()));
    assert!(folder.join("prometheus.yaml").exists() && folder.join("rules.yaml").exists());
    for (target, file) in [
        ("/etc/grafana/provisioning/datasources/tollgate.yaml", "datasource.yaml"),
        ("/etc/grafana/provisioning/dashboards/tollgate.yaml", "dashboards.yaml"),
        ("/etc/grafana/dashboards/tollgate.json", "tollgate.json"),
    ] {
        assert!(mounted(&grafana, target).ends_with(format!("deploy/grafana/{file}")), "{target}");
    }
    assert!(read("grafana/dashboards.yaml").contains("path: /etc/grafana/dashboards\n"));
}
