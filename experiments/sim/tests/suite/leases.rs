//! Leases under load in simulated fleets: the part of calls that agents answer on their own, the quota that leases strand, and
//! the requests to the store under a hot counter. Each of them has one rule on a call, and two.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "random instants and weights are small"
)]

use fastrand::Rng;
use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{LocalAnswer, Source};
use tollgate_servers::scaled;
use tollgate_sim::reference::ReferenceStore;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation};

const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);
/// Time after which all agents know each other, in ms.
const KNOWN_MS: u64 = 3_500;
/// Time in which every call is answered, in ms.
const ANSWERED_MS: u64 = 100;
/// Rules beside that of a test, so that one or two count on each call. The quota of the second is never reached.
const BESIDE: [&str; 2] = ["", ", { name: beside, per: [api_key], quota: 1000000000/h, cost: 1 }"];

/// A fleet whose bus is down once its agents know each other, so that the log of the calls does not fill the memory of the test.
struct Fleet {
    sim: Simulation<'static>,
    rng: Rng,
    /// Time of the last call since the start, in ms.
    last_ms: f64,
    tally: Tally,
}

#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: u64,
    admitted: u64,
    /// Admissions by leases.
    leased: u64,
    /// Answers of an agent on its own.
    local: u64,
    /// Denials of callers that are not `hot`.
    neighbours_denied: u64,
    /// Requests to the store.
    requests: u64,
    /// Calls of those callers that waited for the store, and the sum of their waits, in ms.
    neighbours_asked: u64,
    neighbours_waited_ms: u64,
}

impl Fleet {
    fn new(agents: usize, rules: &str) -> Self {
        let rules: RuleSet = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("valid rules");
        let settings = SimSettings {
            seed: 1,
            faults: Faults { store_ms_max: 1, ..Faults::default() },
            counters_max: 100_000,
            ..SimSettings::fleet(START, agents)
        };
        let mut sim = Simulation::new(settings, &rules);
        sim.run_until(START.plus_ms(KNOWN_MS));
        sim.set_bus_up(false);
        sim.observations();
        Self { sim, rng: Rng::with_seed(1), last_ms: KNOWN_MS as f64, tally: Tally::default() }
    }

    /// Makes the next call of a Poisson process.
    fn call(&mut self, per_second: f64, agent: usize, key: String) -> Timestamp {
        self.last_ms -= (1.0 - self.rng.f64()).ln() * 1_000.0 / per_second;
        let at = START.plus_ms(self.last_ms as u64);
        self.pass_until(at);
        self.sim.check(agent, vec![Call::new().with("api_key", key)]);
        at
    }

    fn pass_until(&mut self, until: Timestamp) {
        if until > self.sim.now() {
            self.sim.run_until(until);
        }
        for observation in self.sim.observations() {
            match observation {
                Observation::Executed { is_part, .. } => self.tally.requests += u64::from(!is_part),
                Observation::Answered(call) => {
                    self.tally.calls += 1;
                    self.tally.admitted += u64::from(call.is_admitted);
                    self.tally.leased += u64::from(call.decision.by == Some(LocalAnswer::Lease));
                    self.tally.local += u64::from(call.decision.source == Source::Local);
                    let is_neighbour = call.call.get("api_key").is_some_and(|key| key != "hot");
                    self.tally.neighbours_denied += u64::from(is_neighbour && !call.is_admitted);
                    let has_asked = is_neighbour && call.ticket.is_some();
                    self.tally.neighbours_asked += u64::from(has_asked);
                    self.tally.neighbours_waited_ms += call.answered.ms_since(call.arrived) * u64::from(has_asked);
                }
                _ => {}
            }
        }
    }

    /// Returns the numbers since the last time.
    fn take(&mut self) -> Tally {
        self.pass_until(self.sim.now().plus_ms(ANSWERED_MS));
        std::mem::take(&mut self.tally)
    }
}

/// Returns the place of a part of a whole, by the weights of all parts.
fn drawn(rng: &mut Rng, cumulated: &[f64]) -> usize {
    let place = rng.f64() * cumulated.last().expect("parts");
    cumulated.partition_point(|end| *end <= place).min(cumulated.len() - 1)
}

/// Returns the cumulated weights of a Zipf distribution.
fn zipf(parts: usize, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=parts)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect()
}

/// C4: under steady demand at 0.95 of the quota and uneven traffic, leases deny at most 0.1% of the calls that one store admits.
#[test]
fn leases_strand_next_to_nothing_under_steady_demand() {
    const QUOTA: u64 = 10_000;
    let calls = (2 + scaled(20)) * QUOTA * 95 / 100;
    for (agents, beside) in [1, 4, 20, 100].into_iter().flat_map(|agents| BESIDE.map(|beside| (agents, beside))) {
        let rules = format!("version: 1\nrules: [{{ name: key, per: [api_key], quota: 10000/min }}{beside}]");
        let set = tollgate_rules::from_yaml("rules.yaml", &rules, 1).expect("valid rules");
        let mut store = ReferenceStore::new(set);
        let (mut fleet, weights, mut rng) = (Fleet::new(agents, &rules), zipf(agents, 1.0), Rng::with_seed(2));
        let mut admitted = 0;
        for _ in 0..calls {
            let agent = drawn(&mut rng, &weights);
            let at = fleet.call(QUOTA as f64 * 0.95 / 60.0, agent, "key".into());
            admitted += u64::from(store.admits(&Call::new().with("api_key", "key"), at));
        }
        let tally = fleet.take();
        println!("{agents} agents{beside}: one store admits {admitted}; {tally:?}");
        assert!(tally.admitted + calls / 1_000 >= admitted, "{agents} agents{beside}: {tally:?}, one store {admitted}");
    }
}

/// C4, N12: with quotas of twice each key's demand, and of a third of it for the busiest hundredth of the keys, agents answer at
/// least 60% of the calls and 40% of the admissions on their own. By default with a tenth of keys and calls, of which they answer
/// fewer: the busiest keys have a smaller part of the calls.
#[test]
fn agents_answer_most_calls_of_a_zipf_workload() {
    let (keys, per_second) = (scaled(10_000) as usize, scaled(20_000) as f64);
    let weights = zipf(keys, 1.1);
    let quota = |rank: usize| {
        let weight = weights[rank] - if rank == 0 { 0.0 } else { weights[rank - 1] };
        let per_minute = weight / weights[keys - 1] * per_second * 60.0;
        let quota = if rank < keys / 100 { per_minute / 3.0 } else { per_minute * 2.0 };
        format!("k{rank}: {{ quota: {}/min }}", quota.ceil() as u64)
    };
    let quotas: Vec<String> = (0..keys).map(quota).collect();
    let settings = format!("per: [api_key], quota: 1/min, keys: {{ {} }}", quotas.join(", "));
    for beside in BESIDE {
        let rules = format!("version: 1\nrules: [{{ name: key, {settings} }}{beside}]");
        let (mut fleet, mut rng) = (Fleet::new(4, &rules), Rng::with_seed(2));
        let mut minute = |fleet: &mut Fleet| {
            for _ in 0..(per_second * 60.0) as u64 {
                let (agent, rank) = (rng.usize(0..4), drawn(&mut rng, &weights));
                fleet.call(per_second, agent, format!("k{rank}"));
            }
            fleet.take()
        };
        minute(&mut fleet);
        let tally = minute(&mut fleet);
        println!("{tally:?}{beside}");
        let (local_percent, leased_percent) = if keys == 10_000 { (60, 40) } else { (50, 38) };
        assert!(tally.local * 100 >= tally.calls * local_percent, "{tally:?}{beside}");
        assert!(tally.leased * 100 >= tally.admitted * leased_percent, "{tally:?}{beside}");
    }
}

/// C10, C12: a hot counter changes neither the answers to its neighbours nor, once it is past its quota, the number of requests to
/// the store, however many calls it has. They are fewer than its admissions.
#[test]
fn a_hot_counter_costs_the_store_the_same_at_any_rate() {
    const PER_SECOND: u64 = 1_000;
    const NEIGHBOURS_PER_SECOND: u64 = 200;
    let cases = ["strict", "bounded"].into_iter().flat_map(|consistency| BESIDE.map(|beside| (consistency, beside)));
    for (consistency, beside) in cases {
        let settings = format!("per: [api_key], quota: {}/10s, consistency: {consistency}", 10 * PER_SECOND);
        let rules = format!("version: 1\nrules: [{{ name: key, {settings} }}{beside}]");
        // Of a window in which the one before it is full.
        let window = |hot_per_second: u64| {
            let (mut fleet, mut rng) = (Fleet::new(4, &rules), Rng::with_seed(2));
            let per_second = hot_per_second + NEIGHBOURS_PER_SECOND;
            let mut calls = |fleet: &mut Fleet| {
                for _ in 0..per_second * 10 {
                    let is_hot = rng.u64(0..per_second) < hot_per_second;
                    let key = if is_hot { "hot".to_owned() } else { format!("k{}", rng.u32(0..20)) };
                    fleet.call(per_second as f64, rng.usize(0..4), key);
                }
                fleet.take()
            };
            calls(&mut fleet);
            let tally = calls(&mut fleet);
            println!("{consistency}{beside}, {hot_per_second}/s: {tally:?}");
            tally
        };
        let (idle, busy, hot) = (window(0), window(scaled(20_000)), window(scaled(100_000)));
        for tally in [idle, busy, hot] {
            assert_eq!(tally.neighbours_denied, 0, "{consistency}{beside}");
            let waited = |tally: Tally| tally.neighbours_waited_ms as f64 / tally.neighbours_asked as f64;
            assert!(waited(tally) < waited(idle) * 1.1, "{consistency}{beside}: {tally:?} {idle:?}");
            assert!(tally.requests - idle.requests < 10 * PER_SECOND, "{consistency}{beside}: {tally:?} {idle:?}");
        }
        assert!(hot.requests < busy.requests * 2, "{consistency}{beside}: {hot:?} {busy:?}");
    }
}

/// B9: at ten times the quota, the store gets at most one request for each admission, and for each agent and sub-window. Where a
/// call may be settled and a small quota has a long window, the checks of denials are more: one for each agent and 250 ms, in which
/// a refund at another agent must show.
#[test]
fn a_caller_past_its_quota_costs_the_store_its_admissions() {
    const AGENTS: u64 = 4;
    let (settled, flat) = ("consistency: strict", "consistency: strict, cost: 1");
    let (settled_default, flat_default) = ("leases: on", "cost: 1");
    let flat_bounded = "estimate: conservative, cost: 1";
    let fixed_window = "consistency: strict, algorithm: fixed_window, cost: 1";
    // Settings, quota, window in s, and true if the requests are within B9.
    let cases = [
        (settled, 60, 60, false),
        (settled, 600, 60, false),
        (settled, 6_000, 60, true),
        (settled, 12, 3, true),
        (settled, 100, 3, true),
        (settled, 1_000, 3, true),
        (flat, 12, 60, true),
        (flat, 60, 60, true),
        (flat, 600, 60, true),
        (flat, 6_000, 60, true),
        (flat, 1_200, 600, true),
        // Under the interpolated estimate, units become free one by one, and several agents ask for each of them.
        (settled_default, 60, 60, false),
        (settled_default, 600, 60, false),
        (settled_default, 6_000, 60, true),
        (flat_default, 60, 60, false),
        (flat_default, 600, 60, true),
        (flat_default, 6_000, 60, true),
        (flat_bounded, 60, 60, true),
        (flat_bounded, 600, 60, true),
        (fixed_window, 60, 60, true),
        (fixed_window, 600, 60, true),
    ];
    let cases = cases.into_iter().flat_map(|case| BESIDE.map(|beside| (case, beside)));
    for ((settings, quota, width_s, is_within), beside) in cases {
        let rule = format!("{{ name: key, per: [api_key], quota: {quota}/{width_s}s, {settings} }}");
        let rules = format!("version: 1\nrules: [{rule}{beside}]");
        let (mut fleet, mut rng) = (Fleet::new(AGENTS as usize, &rules), Rng::with_seed(2));
        let windows = scaled(600).div_ceil(width_s);
        for _ in 0..windows * 10 * quota {
            fleet.call(10.0 * quota as f64 / width_s as f64, rng.usize(0..AGENTS as usize), "key".into());
        }
        let tally = fleet.take();
        // A fixed window is one sub-window, and a denial is checked at least each 10 s.
        let checks = if settings == fixed_window { width_s / 10 } else { 12 };
        let b9 = tally.admitted + windows * checks * AGENTS;
        println!("{quota}/{width_s}s, {settings}{beside}: {tally:?}; the bound is {b9}");
        let most = if is_within { b9 } else { tally.admitted + windows * width_s * 4 * AGENTS };
        assert!(tally.requests <= most, "{quota}/{width_s}s, {settings}{beside}: {tally:?}");
    }
}
