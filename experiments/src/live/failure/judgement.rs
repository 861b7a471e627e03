//! Judgement of one fault at one fleet: the bounds that hold there, and those that the measured figures break.

use std::time::Duration;

use tollgate_core::rules::DEADLINE_MS_DEFAULT;

use super::deployment::RedisDeployment;
use super::faults::ServerFault;
use super::history::Measured;
use super::limiting::Limiting;
use super::load::{BURST_RATE, STEADY_RATE};
use super::quota_bounds::{QuotaBounds, units_of};

const RECOVERY_MAX: Duration = Duration::from_secs(1);
/// Maximum time from the end of an election until all agents and callers use the store.
const FAIL_OVER_RECOVERY_MAX: Duration = Duration::from_secs(5);
/// Time in which a breaker opens: five deadlines. Meanwhile `strict` denies.
const OPENING: Duration = Duration::from_millis(5 * DEADLINE_MS_DEFAULT);
/// Denied calls of honest callers under a rule for each opening of a breaker, beside those that arrive while it opens.
const DENIED_PER_OPENING: u64 = 10;

#[derive(Clone, Copy, Debug)]
pub(super) struct FaultBounds {
    latency: Duration,
    /// Denied calls of honest callers under a rule for each opening of a breaker.
    denied: u64,
    pub(super) callers: QuotaBounds,
    /// Bounds of a quota that two callers share.
    pub(super) shared: QuotaBounds,
    /// Maximum recovery; none if no agent waits for what was away.
    recovery: Option<Duration>,
    /// True if a replica takes over. Then the recovery is that of the callers, too.
    fails_over: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BrokenBound {
    /// Column of the figure.
    pub(super) column: &'static str,
    /// Figure and bound.
    pub(super) text: String,
}

impl FaultBounds {
    /// Returns the bounds of a fault in a run whose bare timer was so late, and in which honest callers make so many calls per second
    /// under one rule at one agent.
    pub(super) fn of(
        at: (ServerFault, RedisDeployment),
        has_kafka: bool,
        timer_late: Duration,
        honest_rate: u32,
    ) -> Self {
        let (fault, deployment) = at;
        let fails_over = fault.fails_over(deployment);
        let recovery = if fails_over { FAIL_OVER_RECOVERY_MAX } else { RECOVERY_MAX };
        Self {
            latency: latency_bound(timer_late),
            denied: DENIED_PER_OPENING + units_of(honest_rate, OPENING),
            callers: QuotaBounds::of(at, has_kafka, Limiting::rule, BURST_RATE),
            shared: QuotaBounds::of(at, has_kafka, Limiting::shared_rule, STEADY_RATE + BURST_RATE),
            recovery: (!fault.is_of_bus()).then_some(recovery),
            fails_over,
        }
    }

    /// Returns the largest number of denied calls of honest callers under a rule, in a run with so many openings of breakers.
    pub(super) fn denied(&self, openings: u64) -> u64 {
        // An agent may lose the store between two looks at its state.
        self.denied * openings.max(1)
    }

    /// Returns the recovery that is judged.
    pub(super) fn recovery_of(&self, measured: &Measured) -> Duration {
        let of_callers = if self.fails_over { measured.callers_recovery } else { Duration::ZERO };
        measured.recovery.max(of_callers)
    }

    pub(super) fn broken_by(&self, measured: &Measured) -> Vec<BrokenBound> {
        let mut broken = Vec::new();
        let mut expect = |column, is_kept: bool, text: String| {
            if !is_kept {
                broken.push(BrokenBound { column, text });
            }
        };
        let Measured { worst, strict_denied, bounded_denied, retries_denied, openings, .. } = *measured;
        let latency = self.latency;
        expect("worst", worst <= latency, format!("a call took {} ms; at most {}", ms(worst), ms(latency)));
        let callers = [("strict", measured.strict), ("bounded", measured.bounded)];
        let shared = [("strict_shared", measured.strict_shared), ("bounded_shared", measured.bounded_shared)];
        for (bounds, [strict, bounded]) in [(self.callers, callers), (self.shared, shared)] {
            let most = bounds.admitted(openings);
            for ((rule, units), most) in [(strict, most.strict), (bounded, most.bounded)] {
                expect(rule, units <= most, format!("`{rule}` admitted {units} in a window; at most {most}"));
            }
            let Some(printed) = bounds.printed else { continue };
            for ((rule, units), most) in [(strict, printed.strict), (bounded, printed.bounded)] {
                let text = format!("`{rule}` admitted {units} in a window; `rules validate` prints at most {most}");
                expect(rule, units <= most, text);
            }
        }
        let most = self.denied(measured.openings);
        for (rule, denied) in [("strict", strict_denied), ("bounded", bounded_denied)] {
            expect("denied", denied <= most, format!("`{rule}` denied {denied} honest calls; at most {most}"));
        }
        let text = format!("{retries_denied} calls were denied again after one retry at each agent; at most 0");
        expect("denied", retries_denied == 0, text);
        if let Some(most) = self.recovery {
            let recovery = self.recovery_of(measured);
            let text = format!("the store was used again after {} ms; at most {}", ms(recovery), ms(most));
            expect("back", recovery <= most, text);
        }
        broken
    }
}

/// Returns the longest time that a call may take: its deadline, and the lateness of a bare timer.
pub(super) fn latency_bound(timer_late: Duration) -> Duration {
    Duration::from_millis(DEADLINE_MS_DEFAULT) + timer_late
}

/// Returns ms, rounded to a tenth.
pub(super) fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::super::faults::AdmittedBounds;
    use super::*;

    const KEPT: Measured = Measured {
        calls: 1_000,
        worst: Duration::from_millis(16),
        p99: Duration::from_millis(2),
        strict: 100,
        bounded: 100,
        strict_shared: 0,
        bounded_shared: 0,
        strict_denied: 10,
        bounded_denied: 0,
        retries_denied: 0,
        openings: 0,
        recovery: Duration::from_secs(1),
        callers_recovery: Duration::ZERO,
    };

    /// never-over: `strict` is never over the quota while no breaker is open, however late the store answers; each other bound is
    /// judged, too.
    #[test]
    fn a_figure_past_its_bound_is_rejected() {
        use ServerFault::{AggregatorKill, BrokerKill, Late4, Late20, Late200, None, Pause};
        // Fault and fleet; change of figures that keep all bounds; column that is rejected.
        type Case = (ServerFault, bool, fn(&mut Measured), Option<&'static str>);
        let mut cases: Vec<Case> = vec![
            (None, true, |seen| seen.worst = Duration::from_millis(17), Some("worst")),
            (None, true, |seen| seen.strict_denied = 11, Some("denied")),
            (Pause, true, |seen| (seen.strict_denied, seen.openings) = (20, 2), Option::None),
            (Pause, true, |seen| (seen.strict_denied, seen.openings) = (21, 2), Some("denied")),
            (Pause, true, |seen| seen.bounded_denied = 10, Option::None),
            (Pause, true, |seen| seen.bounded_denied = 11, Some("denied")),
            (Pause, true, |seen| seen.retries_denied = 1, Some("denied")),
            (Pause, true, |seen| seen.recovery = Duration::from_millis(1_001), Some("back")),
            (BrokerKill, true, |seen| seen.recovery = Duration::from_secs(9), Option::None),
            (Pause, true, |seen| seen.strict = 105, Option::None),
            (Pause, true, |seen| seen.strict = 106, Some("strict")),
            (Pause, true, |seen| seen.bounded = 106, Some("bounded")),
            (Pause, false, |seen| seen.strict = 110, Option::None),
            (Pause, false, |seen| seen.strict = 111, Some("strict")),
        ];
        for fault in [Late4, Late20, Late200] {
            cases.push((fault, true, |seen| (seen.strict, seen.openings) = (105, 1), Option::None));
            cases.push((fault, true, |seen| (seen.strict, seen.openings) = (106, 1), Some("strict")));
            cases.push((fault, false, |seen| (seen.strict, seen.openings) = (110, 1), Option::None));
            cases.push((fault, false, |seen| (seen.strict, seen.openings) = (111, 1), Some("strict")));
        }
        for fault in [None, Late4, Late20, Late200, BrokerKill, AggregatorKill] {
            cases.push((fault, true, |_| {}, Option::None));
            cases.push((fault, true, |seen| seen.strict = 101, Some("strict")));
            cases.push((fault, true, |seen| seen.bounded = 105, Option::None));
            cases.push((fault, true, |seen| seen.bounded = 106, Some("bounded")));
        }
        for (fault, has_kafka, change, column) in cases {
            let mut measured = KEPT;
            change(&mut measured);
            let broken = FaultBounds::of((fault, RedisDeployment::Single), has_kafka, Duration::from_millis(1), 0)
                .broken_by(&measured);
            let columns: Vec<_> = broken.iter().map(|broken| broken.column).collect();
            assert_eq!(columns, Vec::from_iter(column), "{fault:?} {has_kafka}: {broken:?}");
        }
    }

    /// The bounds of an outage in this traffic are within the printed ones, so that a figure past those breaks both.
    #[test]
    fn an_outage_is_held_to_the_printed_bound() {
        for fault in ServerFault::all().iter().filter(|fault| fault.is_outage()) {
            for (has_kafka, printed) in [(true, 526), (false, 199)] {
                let bounds = FaultBounds::of((*fault, RedisDeployment::Single), has_kafka, Duration::ZERO, 0);
                let AdmittedBounds { strict, bounded } = bounds.callers.printed.expect("the store is away");
                assert_eq!((strict, bounded), (printed, printed), "{fault:?}");
                let AdmittedBounds { strict, bounded } = bounds.callers.admitted(1);
                assert!(strict.max(bounded) <= printed, "{fault:?}");
                let over = Measured { strict: printed + 1, ..KEPT };
                let said = bounds.broken_by(&over).iter().filter(|broken| broken.text.contains("prints")).count();
                assert_eq!(said, 1, "{fault:?}");
            }
        }
    }

    /// A breaker opens within five deadlines, and `strict` denies meanwhile.
    #[test]
    fn the_bound_of_denials_grows_with_the_calls_in_which_a_breaker_opens() {
        let bounds = |honest_rate| {
            FaultBounds::of((ServerFault::Kill, RedisDeployment::Cluster), true, Duration::ZERO, honest_rate)
        };
        assert_eq!([0, 18, 183].map(|rate| bounds(rate).denied(3)), [30, 33, 69]);
    }

    /// D6, I8: if a replica takes over, the bounds of one Redis hold with one quota more, and 5 s from the election. If none does, they hold
    /// as they are.
    #[test]
    fn a_fail_over_adds_one_quota_and_ends_within_five_seconds_of_the_election() {
        use ServerFault::{Kill, None, Pause, ReplicaKill};
        type Case = (ServerFault, bool, fn(&mut Measured), &'static [&'static str]);
        let cases: [Case; 14] = [
            (Kill, true, |seen| seen.strict = 205, &[]),
            (Kill, true, |seen| seen.strict = 206, &["strict"]),
            (Pause, true, |seen| seen.bounded = 206, &["bounded"]),
            (Kill, false, |seen| seen.strict = 210, &[]),
            (Kill, false, |seen| seen.strict = 211, &["strict"]),
            (Kill, true, |seen| seen.strict_shared = 307, &[]),
            (Kill, true, |seen| seen.strict_shared = 308, &["strict_shared"]),
            (Kill, false, |seen| seen.bounded_shared = 316, &["bounded_shared"]),
            (Kill, true, |seen| seen.recovery = Duration::from_secs(5), &[]),
            (Kill, true, |seen| seen.recovery = Duration::from_millis(5_001), &["back"]),
            (Pause, true, |seen| seen.callers_recovery = Duration::from_millis(5_001), &["back"]),
            (ReplicaKill, true, |seen| seen.strict = 101, &["strict"]),
            (ReplicaKill, true, |seen| seen.recovery = Duration::from_millis(1_001), &["back"]),
            (
                None,
                false,
                |seen| (seen.strict_shared, seen.bounded_shared) = (151, 158),
                &["strict_shared", "bounded_shared"],
            ),
        ];
        for (fault, has_kafka, change, columns) in cases {
            for deployment in [RedisDeployment::Cluster, RedisDeployment::Sentinel] {
                let mut measured = KEPT;
                change(&mut measured);
                let bounds = FaultBounds::of((fault, deployment), has_kafka, Duration::from_millis(1), 0);
                let broken = bounds.broken_by(&measured);
                let told: Vec<_> = broken.iter().map(|broken| broken.column).collect();
                assert_eq!(told, columns, "{fault:?} {has_kafka} {deployment:?}: {broken:?}");
            }
        }
    }
}
