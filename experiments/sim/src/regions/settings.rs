//! Settings of simulated regions.

use tollgate_core::messages::ledger::Terms;

/// Settings of a run.
#[derive(Clone, Debug)]
pub struct RegionsSettings {
    /// Seed of all that is random.
    pub seed: u64,
    /// Length of the run, in ms.
    pub run_ms: u64,
    /// Interval in which a region compares its budgets with the demand, in ms.
    pub tick_ms: u64,
    /// Regions. The first one is the home of the ledger.
    pub regions: Vec<RegionSettings>,
    /// Number of coordinators.
    pub coordinators: usize,
    /// Faults of coordinators.
    pub coordinator_faults: ProcessFaults,
    /// Number of counters.
    pub counters: u32,
    /// Terms of the rule, by the instants at which they are proposed.
    pub terms: Vec<TermsChange>,
    /// Time from which there are no faults, in ms.
    pub calm_from_ms: u64,
}

/// Terms that the coordinators propose from an instant on.
#[derive(Clone, Debug)]
pub struct TermsChange {
    /// Instant, in ms.
    pub at_ms: u64,
    /// The terms.
    pub terms: Terms,
}

/// Settings of a region.
#[derive(Clone, Debug)]
pub struct RegionSettings {
    /// Its name.
    pub name: &'static str,
    /// Number of its processes that take part at once.
    pub processes: usize,
    /// Offset of its store's clock from true time, in ms, and its drift, in millionths.
    pub store_clock: (u64, i64),
    /// Faults of its store.
    pub store_faults: StoreFaults,
    /// Times for which its bus is away, as [from, until) in ms. Calls are counted afterwards, or never.
    pub bus_cuts: Vec<(u64, u64)>,
    /// Largest drift of the clocks of its processes, in millionths.
    pub drift_ppm_max: u64,
    /// Its link to the home cluster.
    pub link: LinkFaults,
    /// Faults of its processes.
    pub faults: ProcessFaults,
    /// Times for which its machine is suspended with its store and all its processes, as [from, until) in ms.
    pub machine_pauses: Vec<(u64, u64)>,
    /// Time after which its agents know new terms, in ms.
    pub rules_lag_ms: u64,
    /// Its callers.
    pub callers: Vec<CallerPlan>,
}

/// Link to the home cluster, in both directions.
#[derive(Clone, Debug, Default)]
pub struct LinkFaults {
    /// Delay, in ms.
    pub delay_ms: u64,
    /// Largest time that is added to the delay, in ms.
    pub jitter_ms: u64,
    /// Part of the entries that are lost, in thousandths.
    pub lost_permille: u64,
    /// Part of the entries that come twice, in thousandths.
    pub doubled_permille: u64,
    /// Part of the records after which the mirror begins again at an earlier one, in thousandths.
    pub repeated_permille: u64,
    /// Times without any connection, as [from, until) in ms.
    pub cuts: Vec<(u64, u64)>,
}

/// Faults of processes.
#[derive(Clone, Debug, Default)]
pub struct ProcessFaults {
    /// Part of the effects before which the process is suspended, in thousandths.
    pub suspended_permille: u64,
    /// Longest suspension, in ms.
    pub suspended_ms_max: u64,
    /// Mean time between restarts, in ms; 0 for none.
    pub restart_every_ms: u64,
}

/// Faults of a store. It answers all the time, unless its machine is suspended.
#[derive(Clone, Debug, Default)]
pub struct StoreFaults {
    /// Steps of its clock: the instant and the step, both in ms.
    pub steps: Vec<(u64, i64)>,
    /// Instants at which it loses its data, in ms.
    pub losses: Vec<u64>,
}

/// Calls of one counter at a region.
#[derive(Clone, Copy, Debug)]
pub struct CallerPlan {
    /// Number of the counter.
    pub counter: u32,
    /// Instant from which there are calls, in ms.
    pub from_ms: u64,
    /// Instant until which there are calls, in ms.
    pub until_ms: u64,
    /// Calls in a minute.
    pub per_minute: u64,
}

impl RegionSettings {
    /// Returns the end of a time for which the machine is suspended.
    pub(super) fn machine_paused_until(&self, now_ms: u64) -> Option<u64> {
        self.machine_pauses.iter().find(|(from, until)| (*from..*until).contains(&now_ms)).map(|(_, until)| *until)
    }

    pub(super) fn bus_away_until(&self, now_ms: u64) -> Option<u64> {
        self.bus_cuts.iter().find(|(from, until)| (*from..*until).contains(&now_ms)).map(|(_, until)| *until)
    }
}

impl LinkFaults {
    /// Returns the instant from which the link has a connection.
    pub(super) fn connected_from(&self, now_ms: u64) -> u64 {
        let mut at_ms = now_ms;
        while let Some((_, until)) = self.cuts.iter().find(|(from, until)| (*from..*until).contains(&at_ms)) {
            at_ms = *until;
        }
        at_ms
    }

    pub(super) fn is_cut(&self, now_ms: u64) -> bool {
        self.cuts.iter().any(|(from, until)| (*from..*until).contains(&now_ms))
    }
}
