//! J4: regions have the units that they can use in time, whatever happens to their links and buses. A mistake that breaks no bound
//! and leaves units unused breaks a promise.

use tollgate_servers::scaled;
use tollgate_sim::RegionMistake;

use crate::scenario::regions::{Promise, run_watched};

/// Number of seeds of the full test, for each promise.
const SEEDS: u64 = 100;
/// Number of seeds within which a mistake is found.
const MISTAKE_SEEDS: u64 = 100;

fn keeps(promise: Promise, seed: u64, mistake: Option<RegionMistake>) -> Result<(), String> {
    let mut world = promise.world(seed);
    let plan = world.plan.clone();
    run_watched(&plan, None, mistake, &mut |regions| world.check(regions)).map(|_| ())
}

#[test]
fn regions_have_their_units_in_time() {
    let promises = [
        Promise::HealedLink,
        Promise::InterruptedGiver,
        Promise::SilentBus,
        Promise::AddedRegion,
        Promise::RemovedRegion { is_cut: false },
        Promise::RemovedRegion { is_cut: true },
    ];
    for promise in promises {
        for seed in 0..scaled(SEEDS) {
            let kept = keeps(promise, seed, None);
            assert_eq!(kept, Ok(()), "{promise:?}, seed {seed}");
        }
    }
}

#[test]
fn mistakes_that_leave_units_unused_are_found() {
    for mistake in RegionMistake::IDLE {
        let broken = |seed| keeps(Promise::HealedLink, seed, Some(mistake)).err();
        let found = (0..MISTAKE_SEEDS).find_map(|seed| Some((seed, broken(seed)?)));
        let (seed, broken) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: seed {seed}: {broken}");
    }
}
