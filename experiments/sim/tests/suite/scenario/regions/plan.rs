//! The plan of a run of regions: their fleets, links, callers and incidents, all drawn from one seed before the run begins.
//!
//! Each component draws from a random stream of its own. Windows and terms are a few seconds, so a run contains many terms.

use fastrand::Rng;
use tollgate_core::rules::Generation;
use tollgate_sim::{BudgetSettings, Faults, MemberFaults, MirrorFaults, SimAgentSettings, SimSettings, random_stream};

use super::callers::{CallerTimes, requests};
use super::kinds;
use crate::invariants::START;
use crate::scenario::incident::{self, Incident};
use crate::scenario::rules;
use crate::scenario::traffic::Request;

/// Names of regions. The first one is the home of the ledger.
pub(crate) const NAMES: [&str; 3] = ["af", "eu", "us"];
/// Virtual time of a run without its quiet end, in ms, and the part of it in which there are faults.
pub(crate) const RUN_MS: u64 = 30_000;
pub(crate) const CALM_MS: u64 = 24_000;
/// Time after which grants of the first terms end, in ms: a term and a window.
pub(crate) const EXPIRES_MS: u64 = 5_000;

/// Maximum drift of a clock against true time, in millionths.
pub(crate) const DRIFT_PPM_MAX: i64 = 195;
pub(crate) const CLOCK_OFFSET_MS_MAX: i64 = 399;
/// Maximum offset of the clock of a region's store from true time, in ms.
const STORE_OFFSET_MS_MAX: i64 = 399;

/// Plan of a run of regions.
#[derive(Clone, Debug)]
pub(crate) struct RegionsPlan {
    pub(crate) seed: u64,
    pub(crate) kind: WorldKind,
    pub(crate) regions: Vec<RegionPlan>,
    /// Instants at which coordinators propose the terms of a generation, in ms.
    pub(crate) changes: Vec<(u64, Generation)>,
    pub(crate) global: rules::GlobalRule,
    /// True if cut links are mended as soon as a coordinator is suspended before an expiry.
    pub(crate) mends_before_expiries: bool,
}

/// Kind of world: everything at random, or made for an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorldKind {
    Random,
    /// A holder has no connection for about a term and a window, again and again.
    SilentHolder,
    /// The aggregators of a holder are suspended before their writes and restarted, while callers come in bursts.
    SuspendedWriter,
    /// A holder without a connection is suspended, while its store's clock steps back.
    SuspendedHolder,
    /// The terms take another window at about the instant at which a holder is cut off.
    ChangedWindow,
    /// Made for a promise about what regions can do.
    Promise,
}

/// Plan of one region.
#[derive(Clone, Debug)]
pub(crate) struct RegionPlan {
    pub(crate) settings: SimSettings,
    pub(crate) mirror: MirrorFaults,
    pub(crate) members: MemberFaults,
    /// In the order of their instants.
    pub(crate) requests: Vec<Request>,
    pub(crate) incidents: Vec<Incident>,
    /// Times without a connection to the ledger, as [from, until) in ms.
    pub(crate) cuts: Vec<(u64, u64)>,
    /// Time after which the agents know new rules, in ms.
    pub(crate) rules_lag_ms: u64,
    /// True if an aggregator that is suspended before a give-back crashes meanwhile.
    pub(crate) crashes_givers: bool,
}

impl RegionsPlan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = random_stream(seed, "world", 0);
        // Each kind comes again after a few seeds with regions.
        match seed / 4 % 6 {
            0 | 3 => random(seed, &mut rng),
            1 => kinds::silent_holder(seed, &mut rng),
            2 => kinds::suspended_writer(seed, &mut rng),
            4 => kinds::suspended_holder(seed, &mut rng),
            _ => kinds::changed_window(seed, &mut rng),
        }
    }

    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.regions.iter().map(|region| region.settings.region).collect()
    }
}

impl RegionPlan {
    /// Returns a region without faults, near to the home cluster, whose callers come at these times.
    pub(super) fn calm(seed: u64, index: usize, agents: usize, callers: &[CallerTimes]) -> Self {
        let settings = settings(seed, index, agents, &mut random_stream(seed, "region", index));
        let settings =
            SimSettings { faults: Faults { store_ms_max: 2, bus_ms_max: 5, ..Faults::default() }, ..settings };
        let mut rng = random_stream(seed, "callers", index);
        Self {
            requests: requests(&mut rng, agents, RUN_MS, callers),
            settings,
            mirror: MirrorFaults { delay_ms: 5, ..MirrorFaults::default() },
            members: MemberFaults::default(),
            incidents: Vec::new(),
            cuts: Vec::new(),
            rules_lag_ms: 0,
            crashes_givers: false,
        }
    }
}

/// Returns the plan of a world in which everything is random.
fn random(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let count = rng.usize(1..=NAMES.len());
    let regions = (0..count).map(|index| random_region(seed, index)).collect();
    let mut changes = vec![(0, rules::FIRST)];
    let changes_quota = rng.bool();
    if changes_quota {
        let mut at_ms = rng.u64(2_000..8_000);
        for generation in rules::FIRST + 1..=rules::NEWEST {
            at_ms += rng.u64(1_000..8_000);
            if rng.bool() {
                changes.push((at_ms, generation));
            }
        }
    }
    let global = global_rule(seed, count, changes_quota);
    RegionsPlan { seed, kind: WorldKind::Random, regions, changes, global, mends_before_expiries: false }
}

fn random_region(seed: u64, index: usize) -> RegionPlan {
    let mut rng = random_stream(seed, "region", index);
    let agents = rng.usize(1..=3);
    let settings = settings(seed, index, agents, &mut rng);
    let mut callers: Vec<CallerTimes> = Vec::new();
    for _ in 0..rng.usize(1..=3) {
        let from_ms = rng.u64(0..RUN_MS);
        let until_ms = from_ms + rng.u64(2_000..15_000);
        callers.push(CallerTimes { caller: rng.u8(0..2), from_ms, until_ms, per_s: [1, 5, 16][rng.usize(..3)] });
    }
    if rng.bool() {
        // By turns, a region wants the quota of one caller.
        let turns = (0..RUN_MS).step_by(4_000).filter(|_| rng.bool()).collect::<Vec<_>>();
        let turn = |from_ms| CallerTimes { caller: 0, from_ms, until_ms: from_ms + 4_000, per_s: 12 };
        callers.extend(turns.into_iter().map(turn));
    }
    let requests = requests(&mut random_stream(seed, "callers", index), agents, RUN_MS, &callers);
    let mut incidents = incident::draw(&mut rng, &settings, &requests);
    incidents.retain(|incident| incident.ends_ms() < CALM_MS && incident.is_of_regions());
    incidents.sort_by_key(|incident| incident.at_ms);
    let is_home = index == 0;
    let jitters = [0, 10, 200, 1_000, 3_000];
    let mirror = MirrorFaults {
        delay_ms: if is_home { 1 } else { rng.u64(1..100) },
        jitter_ms: jitters[rng.usize(..jitters.len())],
        lost_permille: rng.u64(0..100),
        doubled_permille: rng.u64(0..100),
        repeated_permille: if is_home { 0 } else { rng.u64(0..100) },
    };
    let members = MemberFaults {
        suspended_permille: [0, 5, 30][rng.usize(..3)],
        give_back_permille: [0, 200][rng.usize(..2)],
        expiry_permille: [0, 500][rng.usize(..2)],
        coordinator_permille: [0, 30, 200][rng.usize(..3)],
        suspended_ms_max: [100, 1_500, 6_000][rng.usize(..3)],
    };
    let from_ms = rng.u64(0..CALM_MS);
    let cut = (from_ms, (from_ms + rng.u64(500..10_000)).min(CALM_MS));
    let cuts = if rng.u8(0..3) == 0 { vec![cut] } else { Vec::new() };
    let rules_lag_ms = [0, 100, 1_000][rng.usize(..3)];
    RegionPlan { settings, mirror, members, requests, incidents, cuts, rules_lag_ms, crashes_givers: false }
}

/// Returns the rule with a global scope of a seed.
pub(super) fn global_rule(seed: u64, regions: usize, changes: bool) -> rules::GlobalRule {
    // Of the worlds of each kind, every second one has leases.
    rules::GlobalRule { changes, leases: seed / 24 % 2 == 1, sharing: [regions; 3] }
}

/// Draws the fleet of a region.
fn settings(seed: u64, index: usize, agents: usize, rng: &mut Rng) -> SimSettings {
    let mut percent = |max: u8| if rng.bool() { 0 } else { rng.u8(0..=max) };
    let faults = Faults {
        store_refused_percent: percent(3),
        store_late_percent: percent(2),
        store_answer_lost_percent: percent(5),
        record_lost_percent: percent(10),
        record_duplicated_percent: percent(20),
        ack_negated_percent: percent(5),
        store_ms_max: if rng.u8(0..4) > 0 { 2 } else { 16 },
        bus_ms_max: rng.u64(1..40),
        ack_ms_max: 5,
        ..Faults::default()
    };
    let drift_ppm = |rng: &mut Rng| rng.i64(-DRIFT_PPM_MAX..=DRIFT_PPM_MAX);
    let agent = |rng: &mut Rng| SimAgentSettings {
        clock_offset_ms: rng.i64(-CLOCK_OFFSET_MS_MAX..=CLOCK_OFFSET_MS_MAX),
        clock_drift_ppm: drift_ppm(rng),
        owns_table: false,
    };
    SimSettings {
        start: START,
        seed: random_stream(seed, "messages", index).u64(..),
        region: NAMES[index],
        budgets: Some(BudgetSettings {
            is_home: index == 0,
            is_second: index == 1,
            drift_ppm_max: DRIFT_PPM_MAX,
            tick_ms: BudgetSettings::TICK_MS,
        }),
        agents: (0..agents).map(|_| agent(rng)).collect(),
        aggregators: 2,
        has_bus: true,
        has_store: true,
        store_offset_ms: rng.i64(-STORE_OFFSET_MS_MAX..STORE_OFFSET_MS_MAX),
        store_drift_ppm: drift_ppm(rng),
        partitions: 2,
        counters_max: 10_000,
        faults,
        threshold_permille: 500,
        read_ms: 20,
        ..SimSettings::instant(START)
    }
}
