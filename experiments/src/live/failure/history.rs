//! Judgement of a run from the callers' own logs: windows, false denials, latency and recovery of each fault.
//!
//! A decision belongs to the window of its own time ([`Decision::at`](tollgate::Decision)), which is the store's time of the
//! step if the store decided.

use std::time::Duration;

use tollgate_sim::figures::{as_us, histogram};

use super::faults::ServerFault;
use super::fleet::StateChange;
use super::limiting::Limiting;
use super::load::{Answered, FaultedCaller, RETRIES_MAX};
use super::settings::AGENTS;
use super::settings::WIDTH_MS;
use super::signal_receipts::SignalReceipts;

/// Time after a fault whose calls still belong to its latencies, in ms.
const LATENCY_TAIL_MS: u64 = 1_000;
/// Time in ms for which an agent must not lose the store again to count as recovered.
const RELAPSE_MS: u64 = 1_000;

/// Fault of a run with its instants, in ms since the epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strike {
    pub(super) fault: ServerFault,
    pub(super) begin_ms: u64,
    /// Instant at which the server is back, or a replica has taken over.
    pub(super) end_ms: u64,
    /// Instant of the next fault, or of the end of the run.
    pub(super) next_ms: u64,
}

pub(super) struct History<'a> {
    pub(super) callers: &'a [FaultedCaller],
    /// True for each fleet with Kafka.
    pub(super) has_kafka: Vec<bool>,
    pub(super) answers: Vec<Answered>,
    pub(super) states: Vec<StateChange>,
    pub(super) receipts: SignalReceipts,
    pub(super) strikes: Vec<Strike>,
}

/// Measured figures of one fault at one fleet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) calls: u64,
    pub(super) worst: Duration,
    pub(super) p99: Duration,
    /// Units in the fullest window of any counter.
    pub(super) strict: u64,
    pub(super) bounded: u64,
    /// Units in the fullest window of any counter that two callers share; 0 if there is none.
    pub(super) strict_shared: u64,
    pub(super) bounded_shared: u64,
    /// Denied calls of honest callers, without the last retries.
    pub(super) strict_denied: u64,
    pub(super) bounded_denied: u64,
    /// Denied last retries of honest callers.
    pub(super) retries_denied: u64,
    /// Openings of the breakers of all agents.
    pub(super) openings: u64,
    /// Time from the return of the store until all agents use it again, or from that of Kafka or an aggregator until
    /// all agents have signals of all partitions.
    pub(super) recovery: Duration,
    /// Time from the same instant until each caller whose calls were decided without the store gets a decision by it; 0 if there is none.
    pub(super) callers_recovery: Duration,
}

impl History<'_> {
    pub(super) fn measure(&self, strike: &Strike, fleet: usize) -> Measured {
        let mut took = histogram();
        let answers = || self.answers.iter().filter(|answer| self.callers[answer.caller].fleet == fleet);
        for answer in
            answers().filter(|answer| (strike.begin_ms..strike.end_ms + LATENCY_TAIL_MS).contains(&answer.at_ms))
        {
            took.saturating_record(as_us(answer.took));
        }
        let is_denied = |answer: &&Answered| {
            let caller = &self.callers[answer.caller];
            !answer.allowed && caller.is_honest() && (strike.begin_ms..strike.next_ms).contains(&answer.at_ms)
        };
        let denied = |limiting| {
            let earlier =
                |answer: &&Answered| answer.retries < RETRIES_MAX && self.callers[answer.caller].limiting == limiting;
            answers().filter(is_denied).filter(earlier).count() as u64
        };
        Measured {
            calls: took.len(),
            worst: Duration::from_micros(took.max()),
            p99: Duration::from_micros(took.value_at_quantile(0.99)),
            strict: self.fullest(strike, fleet, Limiting::Strict),
            bounded: self.fullest(strike, fleet, Limiting::Bounded),
            strict_shared: self.fullest_shared(strike, fleet, Limiting::Strict),
            bounded_shared: self.fullest_shared(strike, fleet, Limiting::Bounded),
            strict_denied: denied(Limiting::Strict),
            bounded_denied: denied(Limiting::Bounded),
            retries_denied: answers().filter(is_denied).filter(|answer| answer.retries == RETRIES_MAX).count() as u64,
            openings: self.openings(strike, fleet),
            recovery: self.recovery(strike, fleet),
            callers_recovery: self.callers_recovery(strike, fleet),
        }
    }

    /// Returns the units in the fullest window of any counter that ends between this fault and the next.
    fn fullest(&self, strike: &Strike, fleet: usize, limiting: Limiting) -> u64 {
        let mut admitted = vec![Vec::new(); self.callers.len()];
        for answer in self.answers.iter().filter(|answer| answer.allowed) {
            let caller = &self.callers[answer.caller];
            if caller.fleet == fleet && caller.limiting == limiting {
                admitted[answer.caller].push(answer.at_ms);
            }
        }
        let of_counter = |instants: &mut Vec<u64>| {
            instants.sort_unstable();
            fullest_window(instants, WIDTH_MS, strike.begin_ms..strike.next_ms)
        };
        admitted.iter_mut().map(of_counter).max().unwrap_or(0)
    }

    /// Returns the same of the counter that two callers share.
    fn fullest_shared(&self, strike: &Strike, fleet: usize, limiting: Limiting) -> u64 {
        let is_of_counter = |answer: &&Answered| {
            let caller = &self.callers[answer.caller];
            answer.allowed && caller.is_shared() && caller.fleet == fleet && caller.limiting == limiting
        };
        let mut instants: Vec<u64> =
            self.answers.iter().filter(is_of_counter).map(|answer| answer.second_at_ms).collect();
        instants.sort_unstable();
        fullest_window(&instants, WIDTH_MS, strike.begin_ms..strike.next_ms)
    }

    /// Callers in bursts are left out, because they pause for seconds.
    fn callers_recovery(&self, strike: &Strike, fleet: usize) -> Duration {
        let mut until_ms = vec![None; self.callers.len()];
        let mut answers: Vec<&Answered> = self.answers.iter().collect();
        answers.sort_by_key(|answer| answer.at_ms);
        for answer in answers {
            let (caller, until) = (&self.callers[answer.caller], &mut until_ms[answer.caller]);
            if caller.fleet != fleet || !caller.is_steady() {
                continue;
            }
            if (strike.begin_ms..strike.end_ms).contains(&answer.at_ms) && answer.is_degraded {
                *until = Some(strike.next_ms);
            } else if (strike.end_ms..strike.next_ms).contains(&answer.at_ms) && !answer.is_degraded {
                *until = until.map(|until| answer.at_ms.min(until));
            }
        }
        let latest = until_ms.into_iter().flatten().max().unwrap_or_default();
        Duration::from_millis(latest.saturating_sub(strike.end_ms))
    }

    fn openings(&self, strike: &Strike, fleet: usize) -> u64 {
        let mut is_open = [false; AGENTS];
        let mut openings = 0;
        for change in self.states.iter().filter(|change| change.fleet == fleet) {
            let opened = change.is_open && !is_open[change.agent];
            is_open[change.agent] = change.is_open;
            openings += u64::from(opened && (strike.begin_ms..strike.next_ms).contains(&change.at_ms));
        }
        openings
    }

    fn recovery(&self, strike: &Strike, fleet: usize) -> Duration {
        if strike.fault.is_of_bus() {
            let until = self.receipts.all_after(strike.end_ms).unwrap_or(strike.next_ms).min(strike.next_ms);
            return Duration::from_millis(until - strike.end_ms);
        }
        (0..AGENTS).map(|agent| self.agent_recovery(strike, fleet, agent)).max().unwrap_or_default()
    }

    fn agent_recovery(&self, strike: &Strike, fleet: usize, agent: usize) -> Duration {
        let of_agent = |change: &&StateChange| (change.fleet, change.agent) == (fleet, agent);
        let states: Vec<&StateChange> = self.states.iter().filter(of_agent).collect();
        let until = recovered_at(&states, strike.end_ms, strike.next_ms);
        Duration::from_millis(until.saturating_sub(strike.end_ms))
    }
}

/// Returns the most instants in any window (t-W, t] whose end lies in the range. The instants are in order.
fn fullest_window(instants: &[u64], width_ms: u64, ends: std::ops::Range<u64>) -> u64 {
    let (mut first, mut fullest) = (0, 0);
    for (last, end) in instants.iter().enumerate() {
        while instants[first] + width_ms <= *end {
            first += 1;
        }
        // A window that ends between two instants contains no more than the one at the instant before, except at the
        // beginning of the range, where the window before it is cut off.
        if ends.contains(end) {
            fullest = fullest.max(last - first + 1);
        }
    }
    let at_begin = instants.iter().filter(|at| **at <= ends.start && **at + width_ms > ends.start).count();
    fullest.max(at_begin) as u64
}

/// Returns the instant from which an agent used the store and did not lose it again within a second; at most `next_ms`.
fn recovered_at(states: &[&StateChange], end_ms: u64, next_ms: u64) -> u64 {
    let mut recovered_ms = end_ms;
    let ends = states.iter().skip(1).map(|next| next.at_ms).chain([next_ms]);
    for (state, until_ms) in states.iter().zip(ends).filter(|(_, until_ms)| *until_ms > end_ms) {
        let continues = state.needs_store && state.at_ms <= recovered_ms;
        let relapses = state.is_open && state.at_ms <= recovered_ms + RELAPSE_MS;
        if continues || relapses {
            recovered_ms = until_ms;
        }
    }
    recovered_ms.min(next_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_contains_its_end_and_not_its_begin() {
        let instants = [0, 400, 1_000, 1_001, 1_399, 1_400];
        for (ends, most) in [
            (0..10_000, 4),
            (0..1_400, 4),
            (1_400..1_401, 4),
            (0..1_000, 2),
            (1_001..1_002, 3),
            (2_000..9_000, 3),
            (2_400..9_000, 0),
        ] {
            assert_eq!(fullest_window(&instants, 1_000, ends.clone()), most, "{ends:?}");
        }
    }

    #[test]
    fn an_agent_has_recovered_when_it_keeps_the_store() {
        let state = |at_ms, is_open, needs_store| StateChange { fleet: 0, agent: 0, at_ms, is_open, needs_store };
        let (used, lost, owing) = ((false, false), (true, true), (false, true));
        for (changes, recovered_ms) in [
            (vec![], 1_000),
            (vec![(500, lost), (900, used)], 1_000),
            (vec![(500, lost), (1_200, used)], 1_200),
            (vec![(500, lost), (1_200, owing), (1_300, used)], 1_300),
            (vec![(500, lost), (1_200, used), (2_000, lost), (2_100, used)], 2_100),
            (vec![(500, lost), (1_200, used), (2_201, lost), (2_300, used)], 1_200),
            (vec![(500, lost), (1_200, used), (1_300, owing), (1_301, used)], 1_200),
            (vec![(500, lost)], 5_000),
        ] {
            let changes: Vec<_> = changes.into_iter().map(|(at, (open, needs))| state(at, open, needs)).collect();
            let changes: Vec<&StateChange> = changes.iter().collect();
            assert_eq!(recovered_at(&changes, 1_000, 5_000), recovered_ms, "{changes:?}");
        }
    }
}
