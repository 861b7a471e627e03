//! The faults, and the bounds that hold in each of them.

use std::time::Duration;

use strum::{EnumString, IntoStaticStr, VariantArray};

use super::deployment::RedisDeployment;
use super::settings::FAULT_LENGTH;

/// Length of a pause after which no unit from before it is in the window.
const LONG_PAUSE: Duration = Duration::from_secs(8);

/// Fault of a server or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum ServerFault {
    /// No fault, for comparison.
    None,
    /// A replica is killed, and returns.
    ReplicaKill,
    /// Redis, or a primary, is stopped (SIGSTOP) and answers afterwards.
    Pause,
    /// Redis is stopped for longer than a window.
    #[strum(serialize = "pause-8s")]
    LongPause,
    /// Redis is killed, and returns with its data; a primary returns empty, as a replica of its successor.
    Kill,
    /// Redis is killed, and returns empty.
    EmptyRestart,
    /// Redis has no memory for writes.
    Oom,
    /// Redis is a replica, which refuses writes.
    ReadOnly,
    /// Redis wants a password that the agents do not have.
    Auth,
    /// Redis loads its data.
    Loading,
    /// Redis runs a script of another client.
    Busy,
    /// The network loses everything between agents and Redis.
    BlackHole,
    /// The network loses the answers of Redis.
    LostAnswers,
    /// Each answer of Redis comes 4 ms later.
    #[strum(serialize = "late-4ms")]
    Late4,
    /// Each answer of Redis comes 20 ms later.
    #[strum(serialize = "late-20ms")]
    Late20,
    /// Each answer of Redis comes 200 ms later.
    #[strum(serialize = "late-200ms")]
    Late200,
    /// The broker is stopped (SIGSTOP).
    BrokerPause,
    /// The broker is killed and away for the time of a fault.
    BrokerKill,
    /// The broker is killed and restarted at once.
    BrokerRestart,
    /// One of two aggregators is killed and away for the time of a fault.
    AggregatorKill,
    /// One of two aggregators is stopped (SIGSTOP).
    AggregatorPause,
}

/// Largest numbers of admissions in a window during a fault, by the consistency of the rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdmittedBounds {
    pub(super) strict: u64,
    pub(super) bounded: u64,
}

impl ServerFault {
    /// Returns all faults, in the order in which they are run.
    #[must_use]
    pub fn all() -> &'static [Self] {
        Self::VARIANTS
    }

    /// Returns true if the fault can be made in a deployment.
    #[must_use]
    pub fn is_of(self, deployment: RedisDeployment) -> bool {
        match self {
            Self::None | Self::Pause | Self::Kill => true,
            fault => deployment.fails_over() == (fault == Self::ReplicaKill),
        }
    }

    /// Returns true if a replica takes over in a deployment.
    pub(super) fn fails_over(self, deployment: RedisDeployment) -> bool {
        deployment.fails_over() && matches!(self, Self::Pause | Self::Kill)
    }

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the time from the beginning of the fault to the attempt to end it.
    pub(super) fn length(self) -> Duration {
        match self {
            Self::LongPause => LONG_PAUSE,
            _ => FAULT_LENGTH,
        }
    }

    /// Returns true if the fault concerns agents with Kafka only.
    pub(super) fn is_of_bus(self) -> bool {
        use ServerFault::{AggregatorKill, AggregatorPause, BrokerKill, BrokerPause, BrokerRestart};
        matches!(self, BrokerPause | BrokerKill | BrokerRestart | AggregatorKill | AggregatorPause)
    }

    /// Returns true if the store does not answer and keeps its data.
    pub(super) fn is_outage(self) -> bool {
        use ServerFault::{EmptyRestart, Late4, Late20, Late200, None, ReplicaKill};
        !self.is_of_bus() && !matches!(self, None | ReplicaKill | Late4 | Late20 | Late200 | EmptyRestart)
    }

    /// Returns the bounds of admissions under a quota while no breaker opens. `lag_units` are the units that one caller asks for until a
    /// signal of them is known.
    pub(super) fn bounds(self, quota: u64, has_kafka: bool, lag_units: u64) -> AdmittedBounds {
        use ServerFault::{EmptyRestart, Late4, Late20, Late200, None, ReplicaKill};
        let both = |units| AdmittedBounds { strict: units, bounded: units };
        match self {
            // The store answers: `bounded` may exceed the quota by 5%.
            None | ReplicaKill | Late4 | Late20 | Late200 => {
                AdmittedBounds { strict: quota, bounded: quota + quota / 20 }
            }
            _ if self.is_of_bus() => AdmittedBounds { strict: quota, bounded: quota + quota / 20 },
            EmptyRestart if has_kafka => both(quota + quota / 20 + lag_units),
            // Nobody but the agents themselves knows of the lost units.
            EmptyRestart => both(2 * quota),
            // The store is away and keeps its data.
            _ => outage_bounds(quota, has_kafka),
        }
    }
}

impl AdmittedBounds {
    /// Returns these bounds or those of an outage, whichever are larger.
    pub(super) fn or_outage(self, quota: u64, has_kafka: bool) -> Self {
        let outage = outage_bounds(quota, has_kafka);
        Self { strict: self.strict.max(outage.strict), bounded: self.bounded.max(outage.bounded) }
    }

    /// Returns these bounds with so many units more.
    pub(super) fn plus(self, units: u64) -> Self {
        Self { strict: self.strict.saturating_add(units), bounded: self.bounded.saturating_add(units) }
    }
}

/// Returns the bounds of admissions while the store is away and keeps its data. Agents divide what their signals leave free, and the
/// signals of two agents may differ; without signals, they divide the quota.
fn outage_bounds(quota: u64, has_kafka: bool) -> AdmittedBounds {
    let units = if has_kafka { quota + quota / 20 } else { quota + quota / 10 };
    AdmittedBounds { strict: units, bounded: units }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for fault in ServerFault::VARIANTS {
            assert_eq!(fault.name().parse(), Ok(*fault), "{fault:?}");
        }
        assert_eq!(ServerFault::Late200.name(), "late-200ms");
    }
}
