//! Simulated regions of the experiment: six regions whose load follows the sun, links to the home cluster, and drifting clocks.
//!
//! Each region has an agent, a store, a bus and an aggregator of production, in the world of the simulator.

use std::collections::BTreeMap;

use fastrand::Rng;
use tollgate::{Call, RuleSet};
use tollgate_aggregator_engine::budget::counter_budget::CounterBudget;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::messages::ledger::{LedgerRecord, Terms};
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::{Quota, Rule};
use tollgate_sim::{
    BudgetSettings, Faults, MirrorFaults, Observation, SimRegions, SimSettings, Simulation, random_stream,
};

use super::settings::{GlobalQuotaSettings, REGIONS, demand};
use super::union::RegionCall;
use crate::scenario::arrivals::MINUTE_MS;

/// Name of the rule, and of the descriptor that names its counters.
const RULE: &str = "global";
const CALLER: &str = "caller";
/// Begin of time, a whole number of minutes.
const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
/// Largest drift of a clock against true time, in millionths.
const DRIFT_PPM: i64 = 200;
/// Number of parts of a day in each of which the load of a region is constant.
const DAY_PARTS: u64 = 144;
/// Part of the delay of a link by which it varies.
const JITTER_PARTS: u64 = 4;
/// Interval in which the units of the regions are noted, in ms.
const SAMPLED_EVERY_MS: u64 = 1_000;
/// Interval at which agents read the bus, in ms.
const READ_MS: u64 = 50;

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

/// Calls of one counter at a region.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerPlan {
    pub(super) counter: u32,
    /// Instants from which and until which there are calls, in ms.
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    pub(super) per_minute: u64,
}

/// Numbers of a run. Instants are true times in ms.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionsOutcome {
    /// True if the regions held more than the quota, or their stores might have admitted more.
    pub(super) is_violated: bool,
    /// Entries that were void.
    pub(super) void: u64,
    /// Calls and admissions, by counter.
    pub(super) calls: Vec<Vec<RegionCall>>,
    pub(super) admitted: Vec<Vec<RegionCall>>,
    /// Units of the first counter, by second and region.
    pub(super) budgets: Vec<Vec<BudgetSample>>,
    pub(super) ledger: Vec<(u64, LedgerRecord)>,
}

/// Units of a counter at a region.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BudgetSample {
    /// Units by the ledger.
    pub(super) held: u64,
    /// Units that the store may admit in a window.
    limit: u64,
}

/// A run that goes on.
struct RunningRegions {
    world: SimRegions<'static>,
    quota: u64,
    outcome: RegionsOutcome,
    rng: Rng,
    /// Next calls by their instants, in ms, and by their plans.
    next: BTreeMap<(u64, usize), (usize, CallerPlan)>,
}

/// Returns the identifier of a counter by its number.
pub(super) fn counter_id(number: u32) -> CounterId {
    DigestKey::default().counter(RULE, [&*number.to_string()])
}

impl RegionsRun {
    pub(super) fn day(settings: &GlobalQuotaSettings, seed: u64, tick_ms: u64, cuts: Vec<Vec<(u64, u64)>>) -> Self {
        let callers = (0..REGIONS.len()).map(|region| day_of(settings, region)).collect();
        let (quota, floor) = (settings.quota, settings.floor);
        Self { seed, run_ms: settings.day_ms(), tick_ms, counters: 1, quota, floor, callers, cuts }
    }

    pub(super) fn outcome(&self, settings: &GlobalQuotaSettings) -> RegionsOutcome {
        let region = |(index, name): (usize, &&'static str)| self.region(settings, index, name);
        let rules = self.rules();
        let mut world = SimRegions::new(self.seed, REGIONS.iter().enumerate().map(region).collect(), &rules);
        world.propose(&[self.terms(settings, &rules)]);
        let counters = self.counters as usize;
        let outcome = RegionsOutcome {
            calls: vec![Vec::new(); counters],
            admitted: vec![Vec::new(); counters],
            ..RegionsOutcome::default()
        };
        let rng = random_stream(self.seed, "callers", 0);
        let mut run = RunningRegions { world, quota: self.quota, outcome, rng, next: BTreeMap::new() };
        let plans =
            self.callers.iter().enumerate().flat_map(|(region, plans)| plans.iter().map(move |plan| (region, *plan)));
        for (place, (region, plan)) in plans.enumerate() {
            run.schedule(place, region, plan, plan.from_ms);
        }
        let mut cuts: Vec<(u64, usize, bool)> = Vec::new();
        for (region, of_region) in self.cuts.iter().enumerate() {
            cuts.extend(of_region.iter().flat_map(|(from, until)| [(*from, region, true), (*until, region, false)]));
        }
        cuts.sort_unstable();
        let mut cuts = cuts.into_iter().peekable();
        for at_ms in (SAMPLED_EVERY_MS..=self.run_ms).step_by(usize::try_from(SAMPLED_EVERY_MS).unwrap_or(1)) {
            while let Some((cut_ms, region, is_cut)) = cuts.next_if(|(cut_ms, ..)| *cut_ms <= at_ms) {
                run.go_on(cut_ms);
                run.world.set_link_cut(region, is_cut);
            }
            run.go_on(at_ms);
            run.sample();
            (0..REGIONS.len()).for_each(|region| run.world.region_mut(region).forget_records(MINUTE_MS));
        }
        run.end()
    }

    /// Returns the settings of a region. All stores and agents show about the same time, and drift.
    fn region(&self, settings: &GlobalQuotaSettings, index: usize, name: &'static str) -> (SimSettings, MirrorFaults) {
        let delay_ms = if index == 0 { 1 } else { settings.link_ms };
        let mirror = MirrorFaults { delay_ms, jitter_ms: delay_ms / JITTER_PARTS, ..MirrorFaults::default() };
        let region = SimSettings {
            seed: random_stream(self.seed, "messages", index).u64(..),
            region: name,
            budgets: Some(BudgetSettings {
                is_home: index == 0,
                is_second: false,
                drift_ppm_max: DRIFT_PPM,
                tick_ms: self.tick_ms,
            }),
            store_drift_ppm: if index.is_multiple_of(2) { DRIFT_PPM } else { -DRIFT_PPM },
            faults: Faults { store_ms_max: 1, bus_ms_max: 5, ..Faults::default() },
            counters_max: 100_000,
            read_ms: READ_MS,
            ..SimSettings::fleet(START, 1)
        };
        (region, mirror)
    }

    fn rules(&self) -> RuleSet {
        let quota = Quota::new(self.quota, MINUTE_MS).expect("a quota in range");
        let mut rules = RuleSet::new(1, [Rule::per(RULE, &[CALLER], quota).global()]);
        let floor_ppm = u32::try_from((self.floor * 1_000_000).div_ceil(self.quota)).unwrap_or(u32::MAX);
        rules.regions = REGIONS.iter().map(|name| RegionFloorRatio { region: (*name).into(), floor_ppm }).collect();
        rules
    }

    fn terms(&self, settings: &GlobalQuotaSettings, rules: &RuleSet) -> Terms {
        Terms {
            rule: RULE.into(),
            generation: 1,
            quota: self.quota,
            window_ms: MINUTE_MS,
            term_ms: settings.term_s * 1_000,
            key_fingerprint: DigestKey::default().fingerprint(),
            floors: rules.regions.iter().map(|part| (part.region.clone(), part.units_of(self.quota))).collect(),
        }
    }
}

impl RunningRegions {
    /// Lets everything happen until an instant.
    fn go_on(&mut self, until_ms: u64) {
        while let Some(next) = self.next.first_entry().filter(|next| next.key().0 <= until_ms) {
            let ((at_ms, place), (region, plan)) = next.remove_entry();
            self.step(at_ms);
            self.outcome.calls[plan.counter as usize].push((at_ms, region));
            let call = Call::new().with(CALLER, plan.counter.to_string());
            self.world.region_mut(region).check(0, vec![call]);
            self.take(region);
            self.schedule(place, region, plan, at_ms);
        }
        self.step(until_ms);
    }

    fn step(&mut self, until_ms: u64) {
        while let Some(region) = self.world.step_until(START.plus_ms(until_ms)) {
            self.take(region);
        }
    }

    /// Takes the admissions of a region.
    fn take(&mut self, region: usize) {
        let at_ms = self.world.now().ms_since(START);
        for observation in self.world.region_mut(region).observations() {
            let Observation::Answered(answered) = observation else { continue };
            let mut descriptors = answered.call.descriptors();
            let counter = descriptors.find_map(|(name, value)| (name == CALLER).then(|| value.parse().ok())?);
            let counter: Option<usize> = counter.filter(|_| answered.is_admitted);
            if let Some(admitted) = counter.and_then(|counter| self.outcome.admitted.get_mut(counter)) {
                admitted.push((at_ms, region));
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in ms")]
    fn schedule(&mut self, place: usize, region: usize, plan: CallerPlan, after_ms: u64) {
        if plan.per_minute == 0 {
            return;
        }
        let mean_ms = MINUTE_MS as f64 / plan.per_minute as f64;
        let at_ms = after_ms + (-(1.0 - self.rng.f64()).ln() * mean_ms).round() as u64;
        if at_ms < plan.until_ms {
            self.next.insert((at_ms, place), (region, plan));
        }
    }

    /// Notes the units of the first counter, and compares their sum with the quota.
    fn sample(&mut self) {
        let (counter, now) = (counter_id(0), self.world.now());
        let budget = self.world.ledger().state().budget(RULE, counter);
        let sample = |(name, region): (&&str, &Simulation<'_>)| BudgetSample {
            held: budget.as_ref().map_or(0, |budget| budget.held(name)),
            limit: region.store().budget(RULE, counter, now).unwrap_or(0),
        };
        let samples: Vec<BudgetSample> = REGIONS.iter().zip(self.world.regions()).map(sample).collect();
        let limits: u64 = samples.iter().map(|sample| sample.limit).sum();
        self.outcome.is_violated |= limits > self.quota;
        self.outcome.budgets.push(samples);
    }

    fn end(mut self) -> RegionsOutcome {
        let ledger = self.world.ledger();
        let held = |(_, terms, budget): (_, &Terms, &CounterBudget)| budget.held_by_all() > terms.quota;
        self.outcome.is_violated |= ledger.state().counters().any(held);
        self.outcome.void = ledger.void();
        let records = ledger.records().iter();
        self.outcome.ledger = records.map(|(at, record)| (at.ms_since(START), record.clone())).collect();
        self.outcome
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
