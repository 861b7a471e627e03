//! Simulated fleets with and without leases: requests to the store, and calls denied although there was room.

use fastrand::Rng;
use tollgate_core::rules::Quota;
use tollgate_sim::{Faults, SimSettings};

use super::settings::{LeaseCase, PriceSettings};
use crate::scenario::arrivals::{BEGIN, MINUTE_MS, after_begin, gap_ms};
use crate::scenario::fleet::{Fleet, FleetTally, rules_per_caller};

/// Interval at which the agents read the bus, which is down once they know each other, in ms.
const READ_MS: u64 = 500;
const COUNTERS_MAX: usize = 100_000;

/// Numbers of a cell with leases, without them, and with leases under two rules, for the same calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeaseCell {
    pub(super) on: FleetTally,
    pub(super) off: FleetTally,
    /// With leases, and a second rule of one day that denies nothing.
    pub(super) two: FleetTally,
}

pub(super) fn measure(settings: &PriceSettings, case: LeaseCase, seed: u64) -> LeaseCell {
    let LeaseCase { quota, .. } = case;
    let [on, off] = ["on", "off"].map(|leases| format!("quota: {quota}/min, leases: {leases}"));
    let tally = |rules: &[String]| tally(settings, case, rules, seed);
    LeaseCell {
        off: tally(&[off]),
        two: tally(&[on.clone(), format!("quota: {}/d", 24 * 60 * quota)]),
        on: tally(&[on]),
    }
}

/// Returns the numbers of the measured minutes. Calls come as a Poisson process. Each caller has its own order of the agents, so that
/// all agents have the same load.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn tally(settings: &PriceSettings, case: LeaseCase, rules: &[String], seed: u64) -> FleetTally {
    let LeaseCase { quota, agents, skew } = case;
    let sim = SimSettings {
        seed,
        faults: Faults { store_ms_max: 1, ..Faults::default() },
        counters_max: COUNTERS_MAX,
        read_ms: READ_MS,
        ..SimSettings::fleet(BEGIN, agents)
    };
    let mut fleet = Fleet::new(sim, &rules_per_caller(rules), Quota::new(quota, MINUTE_MS).expect("a quota in range"));
    // Signals decide nothing while the store answers.
    fleet.sim.set_bus_up(false);
    let (mut rng, weights) = (Rng::with_seed(seed), zipf(agents, skew));
    let callers = settings.callers(quota);
    let per_minute = settings.demand * (quota * callers) as f64;
    let ends_ms = [settings.warm_up_minutes, settings.warm_up_minutes + settings.minutes];
    let (mut at_ms, mut tally) = (0.0, FleetTally::default());
    for end_ms in ends_ms.map(|minutes| (minutes * MINUTE_MS) as f64) {
        loop {
            at_ms += gap_ms(&mut rng, per_minute);
            if at_ms >= end_ms {
                break;
            }
            let (caller, rank) = (rng.u64(0..callers), drawn(&mut rng, &weights));
            let agent = (rank + usize::try_from(caller).unwrap_or_default()) % agents;
            fleet.call(after_begin(at_ms), agent, &format!("k{caller}"));
        }
        at_ms = end_ms;
        fleet.run_until(after_begin(end_ms));
        tally = fleet.take();
    }
    tally
}

/// Returns the cumulated weights of a Zipf distribution.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn zipf(parts: usize, exponent: f64) -> Vec<f64> {
    let weights = (1..=parts).map(|rank| (rank as f64).powf(-exponent));
    weights
        .scan(0.0, |sum, weight| {
            Some({
                *sum += weight;
                *sum
            })
        })
        .collect()
}

/// Draws a part by the cumulated weights of all.
fn drawn(rng: &mut Rng, cumulated: &[f64]) -> usize {
    let case = rng.f64() * cumulated[cumulated.len() - 1];
    cumulated.partition_point(|end| *end <= case).min(cumulated.len() - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_drawn_by_their_weights() {
        let (mut rng, weights) = (Rng::with_seed(1), zipf(2, 1.0));
        let second = (0..3_000).filter(|_| drawn(&mut rng, &weights) == 1).count();
        assert!((900..1_100).contains(&second), "a third of 3,000: {second}");
        assert!((zipf(4, 0.0)[3] - 4.0).abs() < 1e-9, "without skew, all weights are 1");
    }
}
