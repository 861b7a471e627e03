//! `grants-within-quota`: regions in virtual time, with faults of everything, never hold or admit more than the quota together.
//! A failing seed is run alone with `TOLLGATE_SEED`.

use std::ops::Range;

use tollgate_servers::scaled;
use tollgate_sim::regions::{RegionMistake, RegionsOutcome, RegionsSettings, RegionsWorld};

use crate::region_worlds::{
    CHANGED_MS, added_region, changed_window, healed_link, interrupted_giver, removed_region, silent_bus,
    silent_holder, suspended_holder, suspended_writer, world,
};

type DrawWorld = fn(u64) -> RegionsSettings;

/// Number of seeds of the full test, for each kind of world.
const SEEDS: u64 = 1_000;
/// Number of seeds within which a mistake is found.
const MISTAKE_SEEDS: u64 = 100;
/// Command that runs the worlds.
const COMMAND: &str = "cargo test -p tollgate-sim --test suite regions";
/// Kinds of worlds, by their names.
const WORLDS: [(&str, DrawWorld); 5] = [
    ("random", world),
    ("silent-holder", silent_holder),
    ("suspended-writer", suspended_writer),
    ("suspended-holder", suspended_holder),
    ("changed-window", changed_window),
];

fn run(settings: RegionsSettings, mistake: Option<RegionMistake>) -> RegionsOutcome {
    RegionsWorld::new(settings, mistake).run()
}

/// Returns the seeds of a kind of world.
fn seeds() -> Range<u64> {
    let seed = std::env::var("TOLLGATE_SEED").map(|seed| seed.parse().expect("TOLLGATE_SEED is a number"));
    seed.map_or(0..scaled(SEEDS), |seed: u64| seed..seed + 1)
}

/// Runs a world without mistakes.
fn run_sound(name: &str, seed: u64, settings: RegionsSettings) -> RegionsOutcome {
    let outcome = run(settings, None);
    let again = format!("{name} world of seed {seed}\nTOLLGATE_SEED={seed} {COMMAND}");
    assert_eq!(outcome.violation, None, "{again}");
    assert_eq!(outcome.beyond_at_end, 0, "a lowered quota is not reached: {again}");
    outcome
}

/// J3, J4: delays to 30 s, loss, repetition, partitions, restarts, doubled and suspended processes and machines, clocks off by hours,
/// changed quotas, floors, windows and terms.
///
/// Overdue units are those that a store admits after the true end of their term, because its clock stepped back. Each region has at
/// most its limit of them in a window, and none has more than the largest quota.
#[test]
fn regions_never_hold_more_than_the_quota() {
    if let Ok(seed) = std::env::var("TOLLGATE_SEED") {
        let seed = seed.parse().expect("TOLLGATE_SEED is a number");
        for (name, world) in WORLDS {
            let outcome = run_sound(name, seed, world(seed));
            println!("{name} world of seed {seed}: {} entries, {} void", outcome.entries, outcome.void);
        }
        return;
    }
    for (name, world) in WORLDS {
        let (mut entries, mut void, mut admitted, mut calls, mut overdue, mut excess) = (0, 0, 0, 0, 0, 0);
        for seed in 0..scaled(SEEDS) {
            let settings = world(seed);
            let largest = settings.terms.iter().map(|change| change.terms.quota).max().unwrap_or(0);
            let excess_max = (settings.regions.len() as u64 - 1) * largest;
            let outcome = run_sound(name, seed, settings);
            let beyond = outcome.overdue_excess;
            assert!(beyond <= excess_max, "{beyond} overdue units beyond the quota, {name} world of seed {seed}");
            excess = excess.max(beyond);
            entries += outcome.entries;
            void += outcome.void;
            overdue += outcome.overdue;
            admitted += outcome.admitted.iter().map(Vec::len).sum::<usize>();
            calls += outcome.calls.iter().map(Vec::len).sum::<usize>();
        }
        println!(
            "{name}: {entries} entries, {void} void; {admitted} of {calls} calls admitted, {overdue} overdue, at most {excess} of \
             them at once beyond the quota"
        );
        assert!(entries > 100 * scaled(SEEDS) && void > 0, "{name}: the regions share nothing");
        assert!(admitted > calls / 10, "{name}: the regions admit nothing");
    }
}

/// J4: a region whose link was cut gets units again, whatever was lost on the link. It wants 50 in a window.
#[test]
fn a_region_gets_units_after_its_link_is_healed() {
    for seed in seeds() {
        let outcome = run_sound("interrupted-giver", seed, interrupted_giver(seed));
        let held = outcome.budgets.last().map_or(0, |samples| samples[1].held);
        assert!(held >= 45, "{held} units at the end, interrupted-giver world of seed {seed}");
    }
}

/// J4: a region that was cut off for longer than its term, and falls to its floor, has what an exact division gives it 3 s after it is
/// heard again. Nothing is tolerated: units that cannot be divided evenly go to the regions in a fixed order.
#[test]
fn a_region_that_is_heard_again_has_its_part() {
    for seed in seeds() {
        let world = healed_link(seed);
        let outcome = run_sound("healed-link", seed, world.settings.clone());
        assert_eq!(world.lack(&outcome), None, "healed-link world of seed {seed}");
    }
}

/// J4: calls that cannot be counted are no missing demand, and those that are counted late are no burst. Each region wants more than
/// half of the quota of 60 units.
#[test]
fn a_region_keeps_its_units_while_its_bus_is_away() {
    for seed in seeds() {
        let outcome = run_sound("silent-bus", seed, silent_bus(seed));
        for (second, samples) in outcome.budgets.iter().enumerate().skip(20) {
            assert!(
                samples.iter().all(|sample| sample.limit >= 28),
                "{samples:?} after {second} s, silent-bus world of seed {seed}"
            );
        }
    }
}

/// J4: an added region gets units of its counters although others hold the units of its floor of one counter, and gets this floor
/// without asking for it once they are back.
#[test]
fn an_added_region_is_not_held_up_by_one_counter() {
    for seed in seeds() {
        let outcome = run_sound("added-region", seed, added_region(seed));
        // The first calls come within some seconds, and the units of busy holders a window and 3 s later.
        let cut = CHANGED_MS + 17_000..CHANGED_MS + 60_000;
        let number = |events: &[(u64, usize)]| {
            events.iter().filter(|(at_ms, region)| cut.contains(at_ms) && *region == 2).count()
        };
        let (admitted, calls) = (number(&outcome.admitted[1]), number(&outcome.calls[1]));
        assert!(10 * admitted >= 9 * calls, "{admitted} of {calls} admitted, added-region world of seed {seed}");
        let held = outcome.budgets.last().map_or(0, |samples| samples[2].held);
        assert_eq!(held, 10, "the floor of the first counter, added-region world of seed {seed}");
    }
}

/// A region that the terms do not name any more gives its units back after a window. If it is cut off, those of its grants return after
/// term, window and margin, of 22.1 s, and its floor once it is back.
#[test]
fn a_removed_region_keeps_no_units() {
    for (is_cut, seed) in seeds().flat_map(|seed| [(false, seed), (true, seed)]) {
        let outcome = run_sound("removed-region", seed, removed_region(seed, is_cut));
        let returned_ms = CHANGED_MS + if is_cut { 25_000 } else { 14_000 };
        for (second, samples) in outcome.budgets.iter().enumerate() {
            let floor = if is_cut { 5 } else { 0 };
            let is_back = second as u64 * 1_000 < returned_ms || samples[1].held <= floor;
            assert!(is_back, "{samples:?} after {second} s, removed-region world of seed {seed}, cut: {is_cut}");
        }
        let held = outcome.budgets.last().map(|samples| samples[1].held);
        assert_eq!(held, Some(0), "removed-region world of seed {seed}, cut: {is_cut}");
    }
}

/// Mistakes that leave units unused break the check of a healed link within 100 seeds, and no other one.
#[test]
fn mistakes_that_leave_units_unused_are_found() {
    for mistake in RegionMistake::IDLE {
        let found = (0..MISTAKE_SEEDS).find_map(|seed| {
            let world = healed_link(seed);
            let outcome = run(world.settings.clone(), Some(mistake));
            assert_eq!(outcome.violation, None, "{mistake:?}, healed-link world of seed {seed}");
            Some((seed, world.lack(&outcome)?))
        });
        let (seed, lack) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: seed {seed}: {lack:?}");
    }
}

/// Each unsafe mistake breaks the check within 100 seeds.
#[test]
fn mistakes_are_found() {
    for mistake in RegionMistake::UNSAFE {
        let world = match mistake {
            RegionMistake::RenewalOverlooked | RegionMistake::WaitFromWrongInstant => silent_holder,
            RegionMistake::FenceIgnored | RegionMistake::LimitDies => suspended_writer,
            RegionMistake::ClockStops => suspended_holder,
            _ => world,
        };
        let found = (0..MISTAKE_SEEDS).find_map(|seed| Some((seed, run(world(seed), Some(mistake)).violation?)));
        let (seed, violation) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: seed {seed}: {violation:?}");
    }
}

#[test]
fn one_seed_replays_everything() {
    for (name, world) in WORLDS {
        let (first, second) = (run(world(1), None), run(world(1), None));
        assert!(first.entries > 0 && !first.admitted.concat().is_empty(), "{name}: nothing happened");
        assert_eq!(first, second, "{name}");
    }
}
