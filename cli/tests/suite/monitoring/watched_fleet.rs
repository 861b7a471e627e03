//! Fleet with traffic that Prometheus reads with the deployed configuration, once a second.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tollgate_servers::{Prometheus, Redis};

use super::{DOCUMENT, deployed};
use crate::fleet::fleet_of_processes::{Fleet, Member, check};
use crate::support::wait_for;

/// Key of a caller that makes more calls than the rules admit.
pub(crate) const BUSY: &str = "busy-key";
const LIMIT: &str = "  - { name: per-key, per: [api_key], quota: 20/10s, deadline: 1s }\n";
/// Quota of the shadow rule of the page, and a quota that a test exceeds.
const HOT: (&str, &str) = ("100k/10s", "200/10s");
const PAUSE: Duration = Duration::from_millis(2);

pub(crate) struct WatchedFleet {
    pub(crate) fleet: Fleet,
    pub(crate) agents: [Member; 2],
    pub(crate) aggregator: Member,
    pub(crate) prometheus: Prometheus,
}

/// Alert that fires.
#[derive(Debug)]
pub(crate) struct Firing {
    pub(crate) name: String,
    /// Its `instance`, or its `rule` if it has none.
    pub(crate) subject: String,
    pub(crate) description: String,
}

/// Ends the traffic when dropped, also if a test fails: the scope waits for its threads.
struct Stopper<'d>(&'d AtomicBool);

impl Drop for Stopper<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl WatchedFleet {
    pub(crate) fn start(name: &str) -> Self {
        let fleet = Fleet::start_over(Redis::start_with_clock, name, &rules());
        let aggregator = fleet.aggregator("counting");
        let agents = ["gw-1", "gw-2"].map(|node| fleet.agent(node));
        aggregator.wait_until_ready();
        let targets = [&agents[0], &agents[1], &aggregator].map(|member| member.address().to_string());
        let prometheus = Prometheus::start(|folder| {
            let from = deployed().join("prometheus");
            fs::copy(from.join("rules.yaml"), folder.join("rules.yaml")).unwrap();
            let config =
                fs::read_to_string(from.join("prometheus.yaml")).unwrap().replace("_interval: 5s", "_interval: 1s");
            let places = ["agent-1:8080", "agent-2:8080", "aggregator:8090"].into_iter().zip(&targets);
            let config = places.fold(config, |config, (place, target)| {
                assert!(config.contains(place), "no {place} in {config}");
                config.replace(place, target)
            });
            fs::write(folder.join("prometheus.yaml"), config).unwrap();
        });
        Self { fleet, agents, aggregator, prometheus }
    }

    /// Returns the address of each agent, by which alerts name it.
    pub(crate) fn agent_names(&self) -> [String; 2] {
        self.agents.each_ref().map(|agent| agent.address().to_string())
    }

    /// Runs `work` while each agent decides calls of a busy key and of new ones.
    pub(crate) fn during_traffic<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let done = AtomicBool::new(false);
        let clients = self.agents.each_ref().map(Member::client);
        std::thread::scope(|scope| {
            for (number, mut client) in clients.into_iter().enumerate() {
                let done = &done;
                scope.spawn(move || {
                    for call in 0.. {
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                        check(&mut client, BUSY);
                        check(&mut client, &format!("new-{number}-{call}"));
                        std::thread::sleep(PAUSE);
                    }
                });
            }
            let _stopper = Stopper(&done);
            work(self)
        })
    }

    /// Returns the samples of a query. Panics if Prometheus refuses it.
    pub(crate) fn samples(&self, query: &str) -> Vec<Value> {
        let answer: Value = serde_json::from_str(&self.prometheus.query(query)).unwrap();
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().expect("a vector").clone()
    }

    pub(crate) fn firing(&self) -> Vec<Firing> {
        let answer: Value = serde_json::from_str(&self.prometheus.alerts()).unwrap();
        let alerts = answer["data"]["alerts"].as_array().expect("alerts").clone();
        let firing = alerts.into_iter().filter(|alert| alert["state"] == "firing");
        let firing = firing.map(|alert| {
            let label = |name: &str| alert["labels"][name].as_str().map(ToOwned::to_owned);
            Firing {
                name: label("alertname").expect("a name"),
                subject: label("instance").or_else(|| label("rule")).expect("a node or a rule"),
                description: alert["annotations"]["description"].as_str().expect("a description").to_owned(),
            }
        });
        firing.collect()
    }

    /// Waits until the alert fires for this node or rule.
    pub(crate) fn wait_for_alert(&self, name: &str, subject: &str) -> Firing {
        wait_for(&format!("{name} of {subject}"), || {
            self.firing().into_iter().find(|alert| alert.name == name && alert.subject == subject)
        })
    }

    /// Waits until the alert fires for nobody.
    pub(crate) fn wait_for_end(&self, name: &str) {
        wait_for(&format!("the end of {name}"), || self.firing().iter().all(|alert| alert.name != name).then_some(()));
    }
}

/// Returns rules that include the shadow rule of the page, with a lower quota.
fn rules() -> String {
    let hot = DOCUMENT.lines().find(|line| line.contains("name: hot-key")).expect("the page has the rule");
    assert!(hot.contains(HOT.0), "{hot}");
    format!("rules:\n{LIMIT}{}\n", hot.replace(HOT.0, HOT.1))
}
