//! Planted mistakes in the random world: each is found within a hundred seeds, by the invariant that it breaks.

use strum::VariantArray;
use tollgate_engine::{FateMistake, plant_fate_mistake};
use tollgate_sim::{PlantedBug, RegionMistake};

use crate::random_world::{has_regions, name_of, reported, run, run_plan, shrunk};
use crate::scenario::regions::{self, RegionsPlan};
use crate::scenario::{Plan, Rest};

/// Number of seeds within which a planted bug is found.
const BUG_SEEDS: u64 = 100;

/// Searches the seeds for one in which a planted bug breaks an invariant.
fn find(bug: PlantedBug, invariant: &str) {
    let (seed, broken) =
        first_broken(|seed| run(seed, Some(bug)), invariant).unwrap_or_else(|| panic!("{bug:?} is not found"));
    println!("{bug:?}: seed {seed}: {broken}");
}

/// Returns the first seed in which the invariant is broken.
fn first_broken<R>(run: impl Fn(u64) -> Result<R, String>, invariant: &str) -> Option<(u64, String)> {
    let broken = |seed| run(seed).err().filter(|broken| name_of(broken) == invariant);
    (0..BUG_SEEDS).find_map(|seed| broken(seed).map(|broken| (seed, broken)))
}

/// Each planted bug is found within 100 seeds, by the invariant that it breaks. In some seeds, a consequence of it is found first.
#[test]
fn each_planted_bug_is_found() {
    for bug in PlantedBug::VARIANTS.iter().filter(|bug| !PlantedBug::MUTANTS.contains(bug)) {
        let invariant = match bug {
            PlantedBug::DuplicateCounted | PlantedBug::SubWindowLost => "exactly-counted",
            PlantedBug::RevokedBeforeRestored | PlantedBug::AnnouncedNeverRestored => "hand-over",
            PlantedBug::RestoredTooEarly => "restore",
            PlantedBug::LostReportedDelivered | PlantedBug::RowLate => "in-flight",
            PlantedBug::NextReported => "capped",
            PlantedBug::BackfillDropped
            | PlantedBug::BackfillTwice
            | PlantedBug::RefundDropped
            | PlantedBug::RefundTwice
            | PlantedBug::ResentBeforeAnswer => "backfill and refund",
            PlantedBug::DenialReportedCharged | PlantedBug::PartCountedTwice | PlantedBug::PartAfterDroppedView => {
                "never-over"
            }
            PlantedBug::WriterNotWoken | PlantedBug::MaintenanceNotWoken | PlantedBug::NextTickLost => "wake-up",
            mutant => unreachable!("{mutant:?} is a mutant"),
        };
        find(*bug, invariant);
    }
}

/// Each mistake about the fate of a charge is found within 100 seeds of the world without regions, by the invariant that it breaks. That
/// of slots of denied calls is found in `slots`.
#[test]
fn each_mistake_about_a_fate_is_found() {
    let accounts = "backfill and refund";
    let mistakes = [
        (FateMistake::RetryRefunded, accounts),
        (FateMistake::CountedRefunded, accounts),
        (FateMistake::SlotKept, accounts),
        (FateMistake::StrandedRefunded, "true-denial"),
        (FateMistake::UnknownForgotten, accounts),
        (FateMistake::ExpiredForgotten, accounts),
        (FateMistake::FailedForgotten, accounts),
        (FateMistake::OpenBackfilled, accounts),
        (FateMistake::ChargedBackfilled, accounts),
        (FateMistake::ResendForgotten, accounts),
        (FateMistake::RefundResent, accounts),
    ];
    for (mistake, invariant) in mistakes {
        plant_fate_mistake(Some(mistake));
        let found = first_broken(|seed| run_plan(&Plan::draw(seed), None), invariant);
        plant_fate_mistake(None);
        let (seed, broken) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: seed {seed}: {broken}");
    }
}

/// Four mistakes were chosen before any check was read (`experiments/mutants.md`). Each is found within 100 seeds, too.
#[test]
fn each_mutant_that_was_chosen_blind_is_found() {
    let invariants = ["never-over", "true-denial", "exactly-counted", "members"];
    for (mutant, invariant) in PlantedBug::MUTANTS.into_iter().zip(invariants) {
        find(mutant, invariant);
    }
}

/// A failing seed is shrunk: the part breaks the same invariant, is repeated by its text, and is much smaller.
#[test]
fn a_failing_seed_is_shrunk() {
    for bug in [PlantedBug::BackfillTwice, PlantedBug::DenialReportedCharged] {
        let mut plans = (0..100).map(Plan::draw).filter(|plan| plan.requests.len() > 400);
        let broken = |plan: Plan| run_plan(&plan, Some(bug)).err().map(|broken| (plan, broken));
        let (plan, broken) = plans.find_map(broken).expect("the bug is found");
        let part = shrunk(&plan, &broken, Some(bug));
        let repeated: Rest = part.to_string().parse().expect("its text is that of a part");
        assert_eq!(repeated, part);
        let again = run_plan(&repeated.of(&plan), Some(bug)).expect_err("the part breaks it, too");
        println!("{bug:?}: {broken}\nshrunk: {again}\n{}\n{part}", part.summary(&plan));
        assert_eq!(name_of(&again), name_of(&broken));
        assert!(part.requests.len() <= 20, "{part}");
    }
}

/// Each mistake in the handling of budgets that breaks a bound is found within 100 seeds, of which a quarter has regions.
#[test]
fn each_mistake_of_regions_is_found() {
    for mistake in RegionMistake::UNSAFE {
        let broken = |seed| reported(|| regions::run(&RegionsPlan::draw(seed), None, Some(mistake))).err();
        let found = (0..BUG_SEEDS).filter(|seed| has_regions(*seed)).find_map(|seed| Some((seed, broken(seed)?)));
        let (seed, broken) = found.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        println!("{mistake:?}: seed {seed}: {broken}");
        assert_eq!(name_of(&broken), "grants-within-quota");
    }
}
