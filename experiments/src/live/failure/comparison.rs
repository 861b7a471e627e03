//! The numbers of the faults beside those of the simulation.

use serde::Serialize;

use super::history::{History, Measured};
use super::simulated::answers;
use crate::live::simulated::SEEDS;

/// Largest difference from the simulation that counts as noise, in units and in denied calls.
pub(super) const NOISE: u64 = 2;

/// Smallest and largest numbers of a fault in the simulation.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SimulatedFailure {
    /// Units in the fullest window of a caller under `strict`.
    pub strict: [u64; 2],
    /// Units under `bounded`.
    pub bounded: [u64; 2],
    /// Denied calls of honest callers under `strict`.
    pub strict_denied: [u64; 2],
    /// Denied calls of honest callers under `bounded`.
    pub bounded_denied: [u64; 2],
}

/// Runs the simulation of each fleet with several seeds. Returns the histories of each fleet.
pub(super) fn simulated<'a>(history: &History<'a>) -> Vec<Vec<History<'a>>> {
    let of_seed = |fleet, seed| History {
        callers: history.callers,
        has_kafka: history.has_kafka.clone(),
        answers: answers(history, fleet, seed),
        states: Vec::new(),
        receipts: history.receipts.clone(),
        strikes: history.strikes.clone(),
    };
    (0..history.has_kafka.len()).map(|fleet| (0..SEEDS).map(|seed| of_seed(fleet, seed)).collect()).collect()
}

impl SimulatedFailure {
    /// Returns the ranges of these numbers; none of no numbers.
    pub(super) fn of(runs: &[Measured]) -> Option<Self> {
        let range = |number: fn(&Measured) -> u64| {
            let numbers = || runs.iter().map(number);
            Some([numbers().min()?, numbers().max()?])
        };
        Some(Self {
            strict: range(|of| of.strict)?,
            bounded: range(|of| of.bounded)?,
            strict_denied: range(|of| of.strict_denied)?,
            bounded_denied: range(|of| of.bounded_denied)?,
        })
    }
}

/// Returns true if a number is in the range of the simulation, or beside it by noise.
pub(super) fn is_as_simulated(number: u64, [least, most]: [u64; 2]) -> bool {
    (least.saturating_sub(NOISE)..=most + NOISE).contains(&number)
}

pub(super) fn shown([least, most]: [u64; 2]) -> String {
    if least == most { least.to_string() } else { format!("{least}-{most}") }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tollgate_core::clock::SystemClock;

    use super::super::deployment::RedisDeployment;
    use super::super::faults::ServerFault;
    use super::super::history::Strike;
    use super::super::judgement::FaultBounds;
    use super::super::limiting::CallMix;
    use super::super::load::{self, FaultedCaller};
    use super::super::signal_receipts::SignalReceipts;
    use super::*;

    const RATE: u32 = 1_300;

    #[test]
    fn simulated_fleets_keep_the_bounds_of_real_ones() {
        for mix in [CallMix::OneRule, CallMix::WithTenant] {
            keeps_the_bounds(&load::callers(2, mix, RATE));
        }
    }

    fn keeps_the_bounds(callers: &[FaultedCaller]) {
        let strike = |fault, begin_ms| Strike { fault, begin_ms, end_ms: begin_ms + 3_000, next_ms: begin_ms + 8_500 };
        let strikes = [(ServerFault::Kill, 1_700_000_010_000), (ServerFault::AggregatorKill, 1_700_000_019_000)];
        let history = History {
            callers,
            has_kafka: vec![true, false],
            answers: Vec::new(),
            states: Vec::new(),
            receipts: SignalReceipts::new(Arc::new(SystemClock::start())),
            strikes: strikes.map(|(fault, begin_ms)| strike(fault, begin_ms)).into(),
        };
        for (fleet, runs) in simulated(&history).iter().enumerate() {
            for strike in &history.strikes {
                let bounds = FaultBounds::of(
                    (strike.fault, RedisDeployment::Single),
                    history.has_kafka[fleet],
                    Duration::ZERO,
                    0,
                );
                let most = bounds.callers.admitted(0);
                for measured in runs.iter().map(|run| run.measure(strike, fleet)) {
                    assert!(measured.calls > 2_000 && measured.strict > 90 && measured.bounded > 90, "{measured:?}");
                    assert!(measured.strict <= most.strict, "{strike:?} {fleet}: {measured:?}");
                    assert!(measured.bounded <= most.bounded, "{strike:?} {fleet}: {measured:?}");
                    assert_eq!((measured.bounded_denied, measured.retries_denied), (0, 0), "{strike:?} {measured:?}");
                }
            }
        }
    }

    #[test]
    fn a_number_beside_the_range_by_noise_is_as_simulated() {
        for (number, expected) in [(97, false), (98, true), (103, true), (106, true), (107, false)] {
            assert_eq!(is_as_simulated(number, [100, 104]), expected, "{number}");
        }
        assert_eq!((shown([3, 3]), shown([0, 3])), ("3".to_owned(), "0-3".to_owned()));
    }
}
