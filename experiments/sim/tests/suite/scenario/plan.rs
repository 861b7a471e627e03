//! The plan of a run: its fleet, its requests and its incidents, all drawn from one seed before the run begins.
//!
//! A run follows its plan and draws nothing else but delays and random faults of messages, so a part of a plan can be run, too.

use fastrand::Rng;
use tollgate_sim::{Faults, SimAgentSettings, SimSettings};

use super::clients::Retrying;
use super::incident::{self, Incident};
use super::traffic::{Pattern, Request, Traffic, is_extended};
use crate::invariants::START;

/// Minimum virtual time of a run, in ms, and of one with a blackout.
const RUN_MS: u64 = 10_000;
const BLACKOUT_RUN_MS: u64 = 26_000;

/// Maximum drift of a clock against true time, in millionths: agents allow for twice as much between two clocks.
const DRIFT_PPM_MAX: i64 = 195;
/// Maximum difference of an agent's clock from true time at its start, in ms.
const CLOCK_OFFSET_MS_MAX: i64 = 399;

/// Parts of the answers of the store that come late on their own, in percent.
const LATE_PERCENTS: [u8; 4] = [0, 0, 1, 20];

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) settings: SimSettings,
    pub(crate) pattern: Pattern,
    pub(crate) retrying: Retrying,
    /// In the order of their instants.
    pub(crate) requests: Vec<Request>,
    /// In the order of their instants.
    pub(crate) incidents: Vec<Incident>,
    /// Virtual time of the run without its quiet end, in ms.
    pub(crate) run_ms: u64,
    /// Maximum offset of the clock of an agent that starts again.
    pub(crate) clock_offset_ms_max: i64,
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let settings = settings(seed, &mut rng);
        let has_blackout = rng.u8(0..8) == 0;
        let run_ms = if has_blackout { BLACKOUT_RUN_MS } else { RUN_MS };
        let (pattern, requests) = Traffic::draw(&mut rng, &settings, run_ms);
        let mut incidents = incident::draw(&mut rng, &settings, &requests);
        if has_blackout {
            // Nothing else becomes of the servers meanwhile.
            let blackout = incident::blackout(&mut rng);
            let lasts = blackout.at_ms..blackout.at_ms + blackout.lasts_ms;
            incidents.retain(|incident| !lasts.contains(&incident.at_ms) && !lasts.contains(&incident.ends_ms()));
            incidents.push(blackout);
        }
        let last_ms = requests.last().map_or(0, |request| request.at_ms);
        let retrying = Retrying::draw(&mut rng);
        if rng.u8(0..4) == 0 {
            incidents.extend(incident::early_change(&mut rng, &settings));
        }
        incidents.sort_by_key(|incident| incident.at_ms);
        let (run_ms, clock_offset_ms_max) = (run_ms.max(last_ms), CLOCK_OFFSET_MS_MAX);
        Self { seed, settings, pattern, retrying, requests, incidents, run_ms, clock_offset_ms_max }
    }
}

/// Draws the answers of the store that come late on their own, in percent.
fn late_percent(seed: u64) -> u8 {
    if is_extended(seed) { LATE_PERCENTS[Rng::with_seed(seed).usize(0..LATE_PERCENTS.len())] } else { 0 }
}

fn settings(seed: u64, rng: &mut Rng) -> SimSettings {
    let mut percent = |max: u8| if rng.bool() { 0 } else { rng.u8(0..=max) };
    let faults = Faults {
        store_refused_percent: percent(3),
        store_late_percent: late_percent(seed),
        store_answer_lost_percent: percent(5),
        record_lost_percent: percent(15),
        record_duplicated_percent: percent(25),
        garbage_percent: percent(5),
        ack_negated_percent: percent(5),
        ack_lost_percent: percent(5),
        // Half of the stores answer in time, half of them often do not.
        store_ms_max: if rng.bool() { 2 } else { 16 },
        bus_ms_max: rng.u64(1..60),
        bus_late_ms: 0,
        ack_ms_max: if rng.bool() { 5 } else { 250 },
        queue_len_max: (rng.u8(0..3) == 0).then(|| rng.usize(2..8)),
    };
    let drift_ppm_max = if rng.u8(0..4) == 0 { 0 } else { DRIFT_PPM_MAX };
    // In half of the seeds, one agent keeps its own table.
    let agent = |index: usize, rng: &mut Rng| SimAgentSettings {
        clock_offset_ms: rng.i64(-CLOCK_OFFSET_MS_MAX..=CLOCK_OFFSET_MS_MAX),
        clock_drift_ppm: rng.i64(-drift_ppm_max..=drift_ppm_max),
        owns_table: index == 0 && seed % 2 == 1,
    };
    SimSettings {
        start: START,
        seed,
        agents: (0..rng.usize(2..5)).map(|index| agent(index, rng)).collect(),
        aggregators: 2,
        has_bus: true,
        has_store: true,
        store_drift_ppm: rng.i64(-drift_ppm_max..=drift_ppm_max),
        partitions: rng.u32(1..5),
        counters_max: if rng.u8(0..4) == 0 { 64 } else { 10_000 },
        faults,
        threshold_permille: rng.u32(0..700),
        ..SimSettings::instant(START)
    }
}
