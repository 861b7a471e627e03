//! Worlds of regions, each drawn from a seed: random ones, and ones that are made for a mistake or a promise.

use fastrand::Rng;
use tollgate_core::messages::ledger::Terms;
use tollgate_sim::regions::{
    CallerPlan, LinkFaults, ProcessFaults, RegionSettings, RegionsSettings, StoreFaults, TermsChange,
};

pub(super) use healed_link::healed_link;
pub(super) use instants::changed_window;

mod healed_link;
mod instants;

const NAMES: [&str; 6] = ["af", "ap", "eu", "me", "sa", "us"];
const RUN_MS: u64 = 240_000;
const CALM_MS: u64 = 160_000;
/// Instant at which the terms name other regions, in ms.
pub(super) const CHANGED_MS: u64 = 60_000;
/// Least time that a store's clock shows, in ms: steps back do not take it below 0.
const STORE_MS_MIN: u64 = 200_000_000;

/// Windows of the terms, in ms, and the terms of their grants.
const WINDOWS: [(u64, u64); 4] = [(10_000, 12_000), (5_000, 6_000), (20_000, 24_000), (20_000, 8_000)];

fn terms(quota: u64, floor: u64, names: &[&'static str]) -> Terms {
    Terms {
        rule: "global".into(),
        generation: 0,
        quota,
        window_ms: 10_000,
        term_ms: 12_000,
        key_fingerprint: 42,
        floors: names.iter().map(|name| ((*name).into(), floor)).collect(),
    }
}

fn with_window(terms: Terms, (window_ms, term_ms): (u64, u64)) -> Terms {
    Terms { window_ms, term_ms, ..terms }
}

/// Returns one cut in one of some cases.
fn cuts_of(rng: &mut Rng, cases: u64) -> Vec<(u64, u64)> {
    let from_ms = rng.u64(0..CALM_MS);
    let cut = (from_ms, (from_ms + rng.u64(1_000..60_000)).min(CALM_MS));
    if rng.u64(0..cases) == 0 { vec![cut] } else { Vec::new() }
}

/// Returns steps of a store's clock by seconds or by hours, back and forward, and losses of its data, each in some cases. A region
/// whose give-back is forgotten with the store, because no process knows it, may admit these units once more.
fn store_faults(rng: &mut Rng, forgets: bool) -> StoreFaults {
    let step = |rng: &mut Rng| {
        let by_ms = if rng.bool() { rng.i64(1_500..20_000) } else { rng.i64(1..=5) * 3_600_000 };
        (rng.u64(0..CALM_MS), if rng.bool() { by_ms } else { -by_ms })
    };
    let steps = if rng.u64(0..3) == 0 { rng.usize(1..=4) } else { 0 };
    let losses = usize::from(rng.u64(0..2) == 0 && !forgets);
    StoreFaults {
        steps: (0..steps).map(|_| step(rng)).collect(),
        losses: (0..losses).map(|_| rng.u64(0..CALM_MS)).collect(),
    }
}

/// Returns a world in which everything is random.
pub(super) fn world(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(2..=NAMES.len());
    let names = &NAMES[..count];
    let counters = rng.u32(1..=2);
    let jitters = [0, 50, 1_000, 5_000, 30_000];
    // In a part of the worlds all regions want one counter by turns.
    let is_contended = rng.bool();
    let region = |(index, name): (usize, &&'static str), rng: &mut Rng| {
        let cuts = cuts_of(rng, 3);
        let callers = (0..rng.usize(0..=3)).map(|_| {
            let from_ms = rng.u64(0..RUN_MS);
            let per_minute = [30, 300, 1_200][rng.usize(..3)];
            CallerPlan { counter: rng.u32(..counters), from_ms, until_ms: from_ms + rng.u64(5_000..90_000), per_minute }
        });
        let mut callers: Vec<CallerPlan> = callers.collect();
        for from_ms in (0..RUN_MS).step_by(20_000).filter(|_| is_contended && rng.bool()) {
            callers.push(CallerPlan { counter: 0, from_ms, until_ms: from_ms + 20_000, per_minute: 400 });
        }
        let machine_pauses = cuts_of(rng, 3);
        let processes = rng.usize(1..=2);
        let restart_every_ms = [0, 20_000, 60_000][rng.usize(..3)];
        RegionSettings {
            name,
            processes,
            store_clock: (STORE_MS_MIN + rng.u64(0..36_000_000), rng.i64(-200..=200)),
            store_faults: store_faults(rng, processes > 1 || restart_every_ms > 0),
            bus_cuts: cuts_of(rng, 3),
            machine_pauses,
            rules_lag_ms: [0, 200, 5_000][rng.usize(..3)],
            drift_ppm_max: 200,
            link: LinkFaults {
                delay_ms: if index == 0 { 1 } else { rng.u64(1..200) },
                jitter_ms: jitters[rng.usize(..jitters.len())],
                lost_permille: rng.u64(0..100),
                doubled_permille: rng.u64(0..100),
                repeated_permille: if index == 0 { 0 } else { rng.u64(0..100) },
                cuts,
            },
            faults: ProcessFaults {
                suspended_permille: [0, 5, 30][rng.usize(..3)],
                suspended_ms_max: [500, 15_000, 120_000][rng.usize(..3)],
                restart_every_ms,
            },
            callers,
        }
    };
    let regions = names.iter().enumerate().map(|named| region(named, &mut rng)).collect();
    let first = terms(60, rng.u64(0..=60 / count as u64), names);
    let window = |rng: &mut Rng| WINDOWS[rng.usize(..WINDOWS.len())];
    let mut changes = vec![TermsChange { at_ms: 0, terms: with_window(first, window(&mut rng)) }];
    for _ in 0..rng.u64(0..=2) {
        let quota = [12, 60, 200][rng.usize(..3)];
        let floor = rng.u64(0..=quota / count as u64);
        // In a part of the worlds regions leave the terms, and come again.
        let remaining: Vec<_> = names.iter().copied().filter(|_| rng.u64(0..8) > 0).collect();
        let next = with_window(terms(quota, floor, &remaining), window(&mut rng));
        changes.push(TermsChange { at_ms: rng.u64(0..CALM_MS), terms: next });
    }
    changes.sort_by_key(|change| change.at_ms);
    (1..).zip(&mut changes).for_each(|(generation, change)| change.terms.generation = generation);
    RegionsSettings {
        seed,
        run_ms: RUN_MS,
        tick_ms: [200, 1_000][rng.usize(..2)],
        regions,
        coordinators: rng.usize(1..=3),
        coordinator_faults: ProcessFaults {
            suspended_permille: [0, 30, 200][rng.usize(..3)],
            suspended_ms_max: [15_000, 60_000][rng.usize(..2)],
            restart_every_ms: [0, 20_000, 60_000][rng.usize(..3)],
        },
        counters,
        terms: changes,
        calm_from_ms: CALM_MS,
    }
}

/// Returns the settings of worlds with two regions that always want units, and a coordinator that is often suspended before its
/// entries.
fn directed(seed: u64, first: RegionSettings, second: RegionSettings) -> RegionsSettings {
    RegionsSettings {
        seed,
        run_ms: RUN_MS,
        tick_ms: 200,
        regions: vec![first, second],
        coordinators: 1,
        coordinator_faults: ProcessFaults { suspended_permille: 500, suspended_ms_max: 6_000, restart_every_ms: 0 },
        counters: 1,
        terms: vec![TermsChange { at_ms: 0, terms: terms(60, 5, &NAMES[..2]) }],
        calm_from_ms: CALM_MS,
    }
}

/// Returns a region without faults, near to the home cluster.
fn region(name: &'static str, processes: usize, callers: Vec<CallerPlan>) -> RegionSettings {
    RegionSettings {
        name,
        processes,
        store_clock: (STORE_MS_MIN, 0),
        store_faults: StoreFaults::default(),
        bus_cuts: Vec::new(),
        machine_pauses: Vec::new(),
        rules_lag_ms: 0,
        drift_ppm_max: 200,
        link: LinkFaults { delay_ms: 5, ..LinkFaults::default() },
        faults: ProcessFaults::default(),
        callers,
    }
}

/// Returns a world in which a holder has no connection for about a term and a window, again and again: it renews its grant at about
/// the instant at which the grant could expire.
pub(super) fn silent_holder(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let always = CallerPlan { counter: 0, from_ms: 0, until_ms: RUN_MS, per_minute: 400 };
    let mut holder = region(NAMES[1], 1, vec![always]);
    let mut from_ms = 10_000;
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(21_000..25_000)).min(CALM_MS);
        holder.link.cuts.push((from_ms, until_ms));
        from_ms = until_ms + rng.u64(500..3_000);
    }
    directed(seed, region(NAMES[0], 1, vec![always]), holder)
}

/// Returns a world in which a holder has two processes. They are suspended before their writes, restarted without memory, and give
/// back the units of short bursts.
pub(super) fn suspended_writer(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let plan = |from_ms, for_ms, per_minute| CallerPlan { counter: 0, from_ms, until_ms: from_ms + for_ms, per_minute };
    let mut bursts = vec![plan(0, RUN_MS, 25)];
    let mut from_ms = 0;
    while from_ms < RUN_MS {
        bursts.push(plan(from_ms, 2_000, 600));
        from_ms += rng.u64(5_000..20_000);
    }
    let mut holder = region(NAMES[1], 2, bursts);
    holder.faults = ProcessFaults { suspended_permille: 100, suspended_ms_max: 10_000, restart_every_ms: 6_000 };
    directed(seed, region(NAMES[0], 1, vec![plan(0, RUN_MS, 400)]), holder)
}

/// Returns a world in which a holder without a connection is suspended for minutes, while its store's clock steps back. When it goes on,
/// its own clock alone can tell that its terms have ended.
pub(super) fn suspended_holder(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let always = CallerPlan { counter: 0, from_ms: 0, until_ms: RUN_MS, per_minute: 400 };
    let mut holder = region(NAMES[1], 1, vec![always]);
    holder.faults = ProcessFaults { suspended_permille: 60, suspended_ms_max: 60_000, restart_every_ms: 0 };
    let mut from_ms = 10_000;
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(30_000..70_000)).min(CALM_MS);
        holder.link.cuts.push((from_ms, until_ms));
        let step_ms = rng.i64(5_000..60_000) + if rng.bool() { 3_600_000 } else { 0 };
        holder.store_faults.steps.push((rng.u64(from_ms..until_ms), -step_ms));
        from_ms = until_ms + rng.u64(3_000..10_000);
    }
    directed(seed, region(NAMES[0], 1, vec![always]), holder)
}

/// Returns a world in which two regions share a quota, and the bus of the second one is away for up to a minute, again and again.
pub(super) fn silent_bus(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let always = CallerPlan { counter: 0, from_ms: 0, until_ms: RUN_MS, per_minute: 600 };
    let mut silent = region(NAMES[1], 1, vec![always]);
    let mut from_ms = 20_000;
    while from_ms < CALM_MS {
        let until_ms = from_ms + rng.u64(1_000..60_000);
        silent.bus_cuts.push((from_ms, until_ms));
        from_ms = until_ms + rng.u64(1_000..20_000);
    }
    let mut settings = directed(seed, region(NAMES[0], 1, vec![always]), silent);
    settings.coordinator_faults = ProcessFaults::default();
    settings
}

/// Returns a world in which two regions share two counters until the terms name a third one, too. One holder of the first counter is
/// cut off from then on for a minute. The third region wants 8 units of the second counter in a window, and none of the first one.
pub(super) fn added_region(seed: u64) -> RegionsSettings {
    let always = |counter, per_minute| CallerPlan { counter, from_ms: 0, until_ms: RUN_MS, per_minute };
    let mut holder = region(NAMES[1], 1, vec![always(0, 600)]);
    holder.link.cuts.push((CHANGED_MS - 1_000, CHANGED_MS + 60_000));
    let mut settings = directed(seed, region(NAMES[0], 1, vec![always(0, 100)]), holder);
    settings.coordinator_faults = ProcessFaults::default();
    settings.regions.push(region(NAMES[2], 1, vec![always(1, 48)]));
    settings.counters = 2;
    let mut added = TermsChange { at_ms: CHANGED_MS, terms: terms(60, 10, &NAMES[..3]) };
    (settings.terms[0].terms.generation, added.terms.generation) = (1, 2);
    settings.terms.push(added);
    settings
}

/// Returns a world in which the terms do not name the second of two regions from an instant on, although it wants all units. It may be
/// cut off from then on.
pub(super) fn removed_region(seed: u64, is_cut: bool) -> RegionsSettings {
    let always = CallerPlan { counter: 0, from_ms: 0, until_ms: RUN_MS, per_minute: 600 };
    let mut removed = region(NAMES[1], 1, vec![always]);
    removed.link.cuts.extend(is_cut.then_some((CHANGED_MS - 1_000, CALM_MS)));
    let mut settings = directed(seed, region(NAMES[0], 1, vec![always]), removed);
    settings.coordinator_faults = ProcessFaults::default();
    let mut change = TermsChange { at_ms: CHANGED_MS, terms: terms(60, 5, &NAMES[..1]) };
    (settings.terms[0].terms.generation, change.terms.generation) = (1, 2);
    settings.terms.push(change);
    settings
}

/// Returns a world in which two regions want units by turns, and the link of the second one is cut again and again, also while it gives
/// units back. After the last cut it alone wants units.
pub(super) fn interrupted_giver(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let plan = |from_ms, until_ms, per_minute| CallerPlan { counter: 0, from_ms, until_ms, per_minute };
    let (mut first, mut second) = (Vec::new(), vec![plan(CALM_MS, RUN_MS, 300)]);
    let mut from_ms = 0;
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(5_000..30_000)).min(CALM_MS);
        let callers = if rng.bool() { &mut first } else { &mut second };
        callers.push(plan(from_ms, until_ms, 300));
        from_ms = until_ms;
    }
    let mut second = region(NAMES[1], 1, second);
    let mut from_ms = rng.u64(5_000..20_000);
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(500..40_000)).min(CALM_MS);
        second.link.cuts.push((from_ms, until_ms));
        from_ms = until_ms + rng.u64(500..20_000);
    }
    directed(seed, region(NAMES[0], 1, first), second)
}
