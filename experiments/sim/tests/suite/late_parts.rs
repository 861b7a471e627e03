//! A store that is late now and then, under the default rule: late calls are decided by the agents' parts, and the windows of
//! callers stay near their quota.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "small numbers"
)]

use std::collections::HashMap;

use fastrand::Rng;
use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::LocalAnswer;
use tollgate_servers::scaled;
use tollgate_sim::{Cut, Faults, Observation, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);
/// Time after which all agents know each other, in ms.
const KNOWN_MS: u64 = 4_000;
const AGENTS: usize = 3;
const CALLERS: usize = 10;
const QUOTA: u64 = 100;
const WIDTH_MS: u64 = 60_000;
/// Most units in a window of an honest caller, in percent of its quota.
const PERCENT_MAX: u64 = 105;

#[derive(Clone, Copy, Debug)]
enum Lateness {
    Percent(u8),
    /// Pauses of 100 ms, so many in 100 s.
    Stalls(u64),
    OneAgent,
}

struct Outcome {
    fullest: u64,
    calls: u64,
    denied: u64,
    by_part: u64,
    late_denials: u64,
}

/// Runs callers that want so many quotas a minute each, in a Poisson process over all agents.
fn run(rule: &str, lateness: Lateness, demand: f64, seed: u64) -> Outcome {
    let text = format!("version: 1\nrules: [{{ name: key, per: [api_key], quota: {QUOTA}/min, {rule} }}]");
    let rules: RuleSet = tollgate_rules::from_yaml("rules.yaml", &text, 1).expect("valid rules");
    let store_late_percent = if let Lateness::Percent(percent) = lateness { percent } else { 0 };
    let settings = SimSettings {
        seed,
        faults: Faults { store_ms_max: 1, store_late_percent, ..Faults::default() },
        ..SimSettings::fleet(START, AGENTS)
    };
    let mut sim = Simulation::new(settings, &rules);
    sim.run_until(START.plus_ms(KNOWN_MS));
    if matches!(lateness, Lateness::OneAgent) {
        sim.set_cut(0, Cut { store_late_ms: Faults::LATE_MS, ..Cut::default() });
    }
    let (mut rng, mut at_ms) = (Rng::with_seed(seed), KNOWN_MS as f64);
    let calls = (scaled(10 * WIDTH_MS) / WIDTH_MS).max(3) * (demand * (QUOTA * CALLERS as u64) as f64) as u64;
    let per_ms = demand * (QUOTA * CALLERS as u64) as f64 / WIDTH_MS as f64;
    let mut admitted: HashMap<String, Vec<u64>> = HashMap::new();
    let mut outcome = Outcome { fullest: 0, calls, denied: 0, by_part: 0, late_denials: 0 };
    let (mut toggle_at, mut is_stalled) = (KNOWN_MS as f64, false);
    for _ in 0..calls {
        at_ms -= (1.0 - rng.f64()).ln() / per_ms;
        while let Lateness::Stalls(in_100_s) = lateness
            && toggle_at < at_ms
        {
            sim.run_until(START.plus_ms(toggle_at as u64).max(sim.now()));
            is_stalled = !is_stalled;
            sim.set_store(if is_stalled { StoreState::Silent } else { StoreState::Up });
            toggle_at += if is_stalled { 100.0 } else { 100_000.0 / in_100_s as f64 - 100.0 };
        }
        let at = START.plus_ms(at_ms as u64).max(sim.now());
        sim.run_until(at);
        let key = format!("k{}", rng.usize(0..CALLERS));
        sim.check(rng.usize(0..AGENTS), vec![Call::new().with("api_key", key)]);
        for observation in sim.observations() {
            let Observation::Answered(answered) = observation else { continue };
            let by = answered.decision.by;
            outcome.denied += u64::from(!answered.is_admitted);
            outcome.by_part += u64::from(by == Some(LocalAnswer::Part));
            outcome.late_denials += u64::from(by == Some(LocalAnswer::Late));
            if answered.is_admitted {
                let key = answered.call.get("api_key").expect("a key").to_owned();
                admitted.entry(key).or_default().push(answered.decision.at.as_ms());
            }
        }
    }
    for instants in admitted.values_mut() {
        instants.sort_unstable();
        for (last, end) in instants.iter().enumerate() {
            let first = instants.partition_point(|at| at + WIDTH_MS <= *end);
            outcome.fullest = outcome.fullest.max((last + 1 - first) as u64);
        }
    }
    outcome
}

/// N5, C5: with 1% and with 20% of the answers late, in pauses of 100 ms and at one agent only, honest traffic of the default rule
/// stays within 105% of its quota, and `strict` within its quota. Callers within their quota are hardly denied.
#[test]
fn late_answers_leave_windows_near_the_quota() {
    let cases = [Lateness::Percent(1), Lateness::Percent(20), Lateness::Stalls(100), Lateness::OneAgent];
    for lateness in cases {
        for demand in [0.7, 1.5] {
            let rules =
                [("cost: 1", PERCENT_MAX), ("estimate: conservative", PERCENT_MAX), ("consistency: strict", 100)];
            for (rule, percent_max) in rules {
                let Outcome { fullest, calls, denied, by_part, late_denials } = run(rule, lateness, demand, 3);
                println!(
                    "{lateness:?}, {rule}, {demand} quotas: fullest window {fullest} of {QUOTA}; of {calls} calls {denied} denied, \
                     {by_part} by parts, {late_denials} denied as late"
                );
                assert!(fullest * 100 <= QUOTA * percent_max, "{lateness:?}, {rule}, {demand}: {fullest}");
                let is_bounded = percent_max == PERCENT_MAX;
                assert!(by_part > 0 || !is_bounded, "{lateness:?}: no call was decided by a part");
                assert!(is_bounded || by_part == 0, "`strict` has no parts");
                assert!(demand > 1.0 || !is_bounded || late_denials * 100 <= calls, "{lateness:?}: {late_denials}");
            }
        }
    }
}
