//! An agent of a region whose store holds the limits of a global rule.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate::store::MemoryStore;
use tollgate::{Agent, Call, Decision, Rule, RuleBudget, RuleSet};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::DigestKey;
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitView, LimitWrite, ShownBudget, StoredLimit};
use tollgate_core::rules::Scope;

/// Start of a sub-window.
const START_MS: u64 = 1_800_000_000;
const WINDOW_MS: u64 = 60_000;

struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_ms(self.0.load(Ordering::Relaxed))
    }
}

/// The region `eu` with a floor of 10 units of 100.
struct Eu {
    agent: Agent<MemoryStore>,
    store: Arc<MemoryStore>,
    clock: Arc<HandClock>,
    as_of: u64,
}

impl Eu {
    fn start() -> Self {
        let clock = Arc::new(HandClock(AtomicU64::new(START_MS)));
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let mut rule = Rule::per("global", &["api_key"], "100/min".parse().unwrap()).strict();
        rule.scope = Scope::Global;
        let mut rules = RuleSet::new(1, [rule]);
        rules.regions = vec![RegionFloorRatio { region: "eu".into(), floor_ppm: 100_000 }];
        let agent = Agent::builder().region("eu").clock(clock.clone()).rules(rules).store(store.clone());
        Self { agent: agent.start_with_store().unwrap(), store, clock, as_of: 0 }
    }

    fn at(&self, ms: u64) {
        self.clock.0.store(START_MS + ms, Ordering::Relaxed);
    }

    /// Writes the granted units until this time, as the aggregator of the region does.
    async fn grant(&mut self, units: u64, until_ms: u64) -> LimitAnswer {
        self.as_of += 1;
        let until = Timestamp::from_ms(START_MS + until_ms);
        let limit = StoredLimit { units, until, window_ms: WINDOW_MS, as_of: self.as_of, ..StoredLimit::default() };
        let counter = DigestKey::default().counter("global", ["k"]);
        let write = LimitWrite { limit, shown: ShownBudget { wants: 50, moves: 3 }, ..LimitWrite::default() };
        self.store.write_limit("global", counter, &write).await.expect("the store answers").1
    }

    async fn call(&self) -> Decision {
        self.agent.decide(&Call::new().with("api_key", "k")).await
    }

    /// Makes calls until one is denied. Returns the number of those that were admitted, and the shown quota.
    async fn exhaust(&self) -> (u64, u64) {
        let mut admitted = 0;
        loop {
            let decision = self.call().await;
            if !decision.allowed {
                return (admitted, decision.status.expect("a rule applies").limit);
            }
            admitted += 1;
        }
    }
}

/// J2: a budget that rises is used within 250 ms, one that falls holds at once, and units end with their term. No true window
/// holds more than the region had at any of its instants.
#[tokio::test]
async fn an_agent_enforces_the_live_budget_of_its_region() {
    let mut eu = Eu::start();
    assert_eq!(eu.exhaust().await, (10, 10), "the floor");
    assert_eq!(eu.grant(30, 20_000).await.used, 10);
    eu.at(249);
    assert_eq!(eu.exhaust().await, (30, 40), "risen");
    // The limit was asked for at the start of the store's time.
    let view = LimitView { shown: ShownBudget { wants: 50, moves: 3 }, age_ms: Some(START_MS + 249) };
    let budget = RuleBudget { rule: "global".into(), units: 40, view: Some(view) };
    assert_eq!(eu.agent.budgets(&Call::new().with("api_key", "k")).await, [budget]);
    // Falls while more is in the window: the give-back has to wait.
    assert_eq!(eu.grant(5, 70_000).await.used, 40);
    eu.at(1_000);
    assert_eq!(eu.exhaust().await, (0, 15), "fallen");
    let emptied_ms = WINDOW_MS + 5_000;
    eu.at(emptied_ms);
    assert_eq!(eu.grant(5, 70_000).await.used, 0);
    assert_eq!(eu.exhaust().await, (15, 15), "the lower budget");
    eu.at(emptied_ms + emptied_ms);
    assert_eq!(eu.exhaust().await, (10, 10), "the term has ended");
}

/// J2: under steady calls of one agent, no true window holds more than the live budget, whatever leases the agent has.
#[tokio::test]
async fn leases_keep_every_window_within_the_budget() {
    let (mut eu, mut admitted, mut by_lease) = (Eu::start(), Vec::new(), 0);
    eu.grant(90, 30_000).await;
    for ms in (0..200_000).step_by(250) {
        eu.at(ms);
        if ms == 90_000 {
            eu.grant(40, 130_000).await;
        }
        let decision = eu.call().await;
        if decision.allowed {
            admitted.push(ms);
            by_lease += u64::from(decision.by.is_some());
        }
        let in_window = admitted.iter().filter(|at| **at + WINDOW_MS > ms).count();
        // The floor, and the units of the terms that were live in the window.
        let most = 10
            + if ms < 90_000 {
                90
            } else if ms < 130_000 + WINDOW_MS {
                40
            } else {
                0
            };
        assert!(in_window <= most, "{in_window} in the window that ends at {ms}");
    }
    assert!(by_lease > 0 && admitted.len() > 150, "{by_lease} of {} by leases", admitted.len());
}
