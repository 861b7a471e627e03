//! The calls of five callers, which all ways see: two that want far more than their quota all the time, one that comes in bursts, and
//! two that stay within it.

use fastrand::Rng;
use tollgate_core::clock::Timestamp;

use super::settings::WaySettings;
use crate::scenario::arrivals::{BEGIN, MINUTE_MS, after_begin, gap_ms};

/// Length of a burst, in the middle of which a minute ends at first.
const BURST_MS: u64 = 2_000;
/// Time by which the bursts come earlier in each minute. An estimate by sub-windows does not see that the last one is still inside.
const EARLIER_MS: u64 = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ArrivedCall {
    pub(super) at: Timestamp,
    pub(super) node: usize,
    pub(super) caller: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WayCaller {
    /// Wants several quotas, from all nodes.
    Spread,
    /// Wants several quotas within two seconds at the end of each minute, from all nodes.
    Burst,
    /// Wants several quotas, from one node.
    OneNode,
    /// Wants less than its quota, from all nodes.
    Fair,
    /// Wants less than its quota, from one node.
    FairOneNode,
}

impl WayCaller {
    pub(super) const ALL: [Self; 5] = [Self::Spread, Self::Burst, Self::OneNode, Self::Fair, Self::FairOneNode];

    pub(super) fn is_spread(self) -> bool {
        !matches!(self, Self::OneNode | Self::FairOneNode)
    }

    pub(super) fn is_fair(self) -> bool {
        matches!(self, Self::Fair | Self::FairOneNode)
    }
}

/// Returns the calls of all callers in order of time.
#[expect(clippy::cast_precision_loss, reason = "small times and quotas")]
pub(super) fn calls(settings: &WaySettings, nodes: usize, seed: u64) -> Vec<ArrivedCall> {
    let (mut seeds, quota) = (Rng::with_seed(seed), settings.quota as f64);
    let end_ms = (settings.minutes * MINUTE_MS) as f64;
    let mut calls = Vec::new();
    for (index, caller) in WayCaller::ALL.into_iter().enumerate() {
        let mut rng = seeds.fork();
        let home = rng.usize(0..nodes);
        let mut arrives = |rng: &mut Rng, at| {
            let node = if caller.is_spread() { rng.usize(0..nodes) } else { home };
            calls.push(ArrivedCall { at, node, caller: index });
        };
        if caller == WayCaller::Burst {
            for minute in 1..=settings.minutes {
                let begin_ms = minute * MINUTE_MS - BURST_MS / 2 - (minute - 1) * EARLIER_MS;
                for _ in 0..settings.burst * settings.quota {
                    let at_ms = begin_ms + rng.u64(0..BURST_MS);
                    if at_ms < settings.minutes * MINUTE_MS {
                        arrives(&mut rng, BEGIN.plus_ms(at_ms));
                    }
                }
            }
            continue;
        }
        let demand = if caller.is_fair() { settings.fair } else { settings.demand };
        let mut at_ms = gap_ms(&mut rng, demand * quota);
        while at_ms < end_ms {
            arrives(&mut rng, after_begin(at_ms));
            at_ms += gap_ms(&mut rng, demand * quota);
        }
    }
    calls.sort_by_key(|call| call.at);
    calls
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_sim::figures::ratio;

    #[test]
    fn each_caller_has_its_demand_and_its_nodes() {
        let settings = WaySettings { minutes: 20, ..WaySettings::small() };
        let calls = calls(&settings, 10, 1);
        assert!(calls.is_sorted_by_key(|call| call.at));
        let per_minute = [settings.demand, 0.0, settings.demand, settings.fair, settings.fair];
        for (index, caller) in WayCaller::ALL.into_iter().enumerate() {
            let of_caller: Vec<_> = calls.iter().filter(|call| call.caller == index).collect();
            let nodes = of_caller.iter().map(|call| call.node).collect::<std::collections::BTreeSet<_>>().len();
            assert_eq!(nodes, if caller.is_spread() { 10 } else { 1 }, "{caller:?}");
            if caller == WayCaller::Burst {
                assert_eq!(of_caller.len() as u64, 20 * settings.burst * settings.quota);
                let first = of_caller[0].at.ms_since(BEGIN);
                assert!(first.abs_diff(MINUTE_MS - BURST_MS / 2) < 100, "{first} ms");
                continue;
            }
            let quotas = ratio(of_caller.len() as u64, 20 * settings.quota);
            assert!((quotas / per_minute[index] - 1.0).abs() < 0.2, "{caller:?}: {quotas} quotas a minute");
        }
    }
}
