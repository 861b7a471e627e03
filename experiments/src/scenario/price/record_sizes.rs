//! Bytes of a call and of a signal on the bus: records of an agent and of an aggregator of production, before framing, compression
//! and replication by Kafka.

use fastrand::Rng;
use tollgate::{Call, RuleSet};
use tollgate_bus::Topic;
use tollgate_sim::figures::ratio;
use tollgate_sim::{Observation, SimSettings, Simulation};
use tollgate_wire::Record;

use crate::scenario::arrivals::{BEGIN, MINUTE_MS};
use crate::scenario::fleet::CALLER;

/// Number of partitions of a fleet by default.
const PARTITIONS: u32 = 8;
const COUNTERS_MAX: usize = 10_000_000;
/// Time in which the last calls reach the bus, in ms.
const PUBLISHED_MS: u64 = 500;
const SECOND_MS: u64 = 1_000;

/// Mean sizes, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RecordSizes {
    pub(super) call: f64,
    pub(super) signal: f64,
}

/// Measures the sizes with one agent at a rate, for a second. There are as many callers as use up their quotas per minute, and the
/// aggregator signals each of them.
pub(super) fn measure(calls_per_second: u64, quota: u64, seed: u64) -> RecordSizes {
    let rule = format!("version: 1\nrules: [{{ name: key, per: [api_key], quota: {quota}/min }}]");
    let rules: RuleSet = tollgate_rules::from_yaml("rule", &rule, 1).expect("a valid rule");
    let settings = SimSettings {
        seed,
        partitions: PARTITIONS,
        counters_max: COUNTERS_MAX,
        threshold_permille: 0,
        ..SimSettings::fleet(BEGIN.minus_ms(MINUTE_MS / 6), 1)
    };
    let mut sim = Simulation::new(settings, &rules);
    sim.run_until(BEGIN);
    let written = |sim: &Simulation<'_>| {
        let records = (0..PARTITIONS).flat_map(|partition| sim.bus().records(Topic::Calls, partition));
        records.map(|record| record.payload.len() as u64).sum::<u64>()
    };
    let (before, callers) = (written(&sim), (calls_per_second * MINUTE_MS / SECOND_MS / quota).max(1));
    let (mut rng, mut signals, mut signal_bytes) = (Rng::with_seed(seed), 0, 0);
    let mut publish = |sim: &mut Simulation<'_>| {
        for observation in sim.observations() {
            if let Observation::Published(_, batch) = observation {
                signals += batch.signals.len() as u64;
                signal_bytes += if batch.signals.is_empty() { 0 } else { batch.encode().len() as u64 };
            }
        }
    };
    for call in 0..calls_per_second {
        sim.run_until(BEGIN.plus_ms(call * SECOND_MS / calls_per_second));
        sim.check(0, vec![Call::new().with(CALLER, format!("k{}", rng.u64(0..callers)))]);
        publish(&mut sim);
    }
    sim.run_until(BEGIN.plus_ms(SECOND_MS + PUBLISHED_MS));
    publish(&mut sim);
    RecordSizes { call: ratio(written(&sim) - before, calls_per_second), signal: ratio(signal_bytes, signals) }
}
