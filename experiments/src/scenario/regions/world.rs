//! Simulated regions of the experiment: six regions whose load follows the sun, links to the home cluster, and drifting clocks.

use tollgate_core::messages::ledger::Terms;
use tollgate_sim::regions::{
    CallerPlan, LinkFaults, ProcessFaults, RegionSettings, RegionsOutcome, RegionsSettings, RegionsWorld, StoreFaults,
    TermsChange,
};

use super::settings::{GlobalQuotaSettings, REGIONS, demand};
use crate::scenario::arrivals::MINUTE_MS;

/// Largest drift of a clock against true time, in millionths.
const DRIFT_PPM: i64 = 200;
/// Number of parts of a day in each of which the load of a region is constant.
const DAY_PARTS: u64 = 144;
/// Part of the delay of a link by which it varies.
const JITTER_PARTS: u64 = 4;

#[derive(Clone, Debug)]
pub(super) struct RegionsRun {
    pub(super) seed: u64,
    pub(super) run_ms: u64,
    pub(super) tick_ms: u64,
    pub(super) counters: u32,
    pub(super) quota: u64,
    pub(super) floor: u64,
    /// Calls, by region.
    pub(super) callers: Vec<Vec<CallerPlan>>,
    /// Times without connection, by region, as [from, until) in ms.
    pub(super) cuts: Vec<Vec<(u64, u64)>>,
}

impl RegionsRun {
    pub(super) fn day(settings: &GlobalQuotaSettings, seed: u64, tick_ms: u64, cuts: Vec<Vec<(u64, u64)>>) -> Self {
        let callers = (0..REGIONS.len()).map(|region| day_of(settings, region)).collect();
        let (quota, floor) = (settings.quota, settings.floor);
        Self { seed, run_ms: settings.day_ms(), tick_ms, counters: 1, quota, floor, callers, cuts }
    }

    pub(super) fn outcome(&self, settings: &GlobalQuotaSettings) -> RegionsOutcome {
        let region = |(index, name): (usize, &&'static str)| {
            let delay_ms = if index == 0 { 1 } else { settings.link_ms };
            RegionSettings {
                store_faults: StoreFaults::default(),
                bus_cuts: Vec::new(),
                machine_pauses: Vec::new(),
                rules_lag_ms: 0,
                name,
                processes: 1,
                store_clock: (index as u64 * MINUTE_MS, if index % 2 == 0 { DRIFT_PPM } else { -DRIFT_PPM }),
                drift_ppm_max: DRIFT_PPM.unsigned_abs(),
                link: LinkFaults {
                    delay_ms,
                    jitter_ms: delay_ms / JITTER_PARTS,
                    cuts: self.cuts.get(index).cloned().unwrap_or_default(),
                    ..LinkFaults::default()
                },
                faults: ProcessFaults::default(),
                callers: self.callers[index].clone(),
            }
        };
        let terms = Terms {
            rule: "global".into(),
            generation: 1,
            quota: self.quota,
            window_ms: MINUTE_MS,
            term_ms: settings.term_s * 1_000,
            key_fingerprint: RegionsWorld::FINGERPRINT,
            floors: REGIONS.iter().map(|name| ((*name).into(), self.floor)).collect(),
        };
        let settings = RegionsSettings {
            seed: self.seed,
            run_ms: self.run_ms,
            tick_ms: self.tick_ms,
            regions: REGIONS.iter().enumerate().map(region).collect(),
            coordinators: 1,
            coordinator_faults: ProcessFaults::default(),
            counters: self.counters,
            terms: vec![TermsChange { at_ms: 0, terms }],
            calm_from_ms: u64::MAX,
        };
        RegionsWorld::new(settings, None).run()
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates of calls"
)]
fn day_of(settings: &GlobalQuotaSettings, region: usize) -> Vec<CallerPlan> {
    let at_ms = |part: u64| settings.day_ms() * part / DAY_PARTS;
    let plan = |part: u64| {
        let quotas = demand(settings, region, (part as f64 + 0.5) / DAY_PARTS as f64);
        let per_minute = (quotas * settings.quota as f64).round() as u64;
        CallerPlan { counter: 0, from_ms: at_ms(part), until_ms: at_ms(part + 1), per_minute }
    };
    (0..DAY_PARTS).map(plan).collect()
}
