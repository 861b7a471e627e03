//! Every interleaving of small worlds of regions, walked by a model checker.
//!
//! The ledger, the store's rule for limits and the holder's rules for its limit and its give-backs are those of production. Time
//! passes in ticks: a term is two, a window is one. Three reductions keep every state that can be over the quota. Regions and
//! counters are named in the order in which they ask. A region reads entries that are about no grant of its own together with
//! the one before. Calls use a limit up, or not at all. The bounds of a world are its numbers.

use stateright::{Checker, HasDiscoveries, Model};

use bounds::{BudgetModel, ModelMistake};
use world::{QUOTA, STATE};

mod place;
mod state;
mod bounds;
mod execution;
mod choices;
mod world;

/// Three regions share one counter of two units: eight entries, two requests, a renewal and a give-back within four ticks.
const PLAIN: BudgetModel = BudgetModel {
    regions: 3,
    counters: 1,
    quota: 2,
    entries_max: 8,
    void_max: 0,
    begun_max: [2, 1, 1],
    suspensions_max: 0,
    restarts_max: 0,
    ticks_max: 4,
    store_ends_terms: true,
    mistake: None,
};

/// A quota of one unit. No sequence of its requests, renewals and give-backs has more than seven entries.
const SMALL: BudgetModel = BudgetModel { quota: 1, entries_max: 7, ..PLAIN };
/// One effect of a region is suspended, for any time.
const SUSPENDED: BudgetModel = BudgetModel { suspensions_max: 1, ..SMALL };
/// A holder's own clock alone ends its terms.
const OWN_CLOCK: BudgetModel = BudgetModel { store_ends_terms: false, ..SMALL };

/// Walks a world until a property is broken, or to its end.
fn walk(world: BudgetModel) -> impl Checker<BudgetModel> {
    let checker = world.checker().finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (unique, all, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    println!("{unique} unique states of {all}, {depth} steps deep");
    checker
}

#[test]
fn three_regions_share_two_units() {
    walk(PLAIN).assert_properties();
}

#[test]
fn three_regions_share_two_counters() {
    // The larger world takes more than a minute.
    let is_full = std::env::var_os("TOLLGATE_TEST_FULL").is_some();
    walk(BudgetModel { counters: 2, ..if is_full { PLAIN } else { SMALL } }).assert_properties();
}

#[test]
fn a_suspended_effect_does_no_harm() {
    walk(SUSPENDED).assert_properties();
}

/// Void entries of doubled coordinators, of regions that know an old state, and of expiries after a renewal.
#[test]
fn a_void_entry_does_no_harm() {
    walk(BudgetModel { quota: 1, void_max: 1, ticks_max: 3, ..PLAIN }).assert_properties();
}

#[test]
fn a_successor_does_no_harm() {
    let world = BudgetModel { regions: 2, entries_max: 5, suspensions_max: 1, restarts_max: 1, ticks_max: 3, ..SMALL };
    walk(world).assert_properties();
}

#[test]
fn the_clock_of_the_holder_ends_its_term() {
    walk(OWN_CLOCK).assert_properties();
}

/// The store's clock ends a term even if the clock of the holder's process stands still while it is suspended.
#[test]
fn the_clock_of_the_store_ends_a_term() {
    let checker = walk(BudgetModel { mistake: Some(ModelMistake::ClockStops), ticks_max: 3, ..SMALL });
    checker.assert_no_discovery(QUOTA);
    checker.assert_no_discovery(STATE);
}

/// Each mistake breaks a property.
#[test]
fn mistakes_have_counterexamples() {
    for mistake in ModelMistake::ALL {
        let (world, property) = match mistake {
            ModelMistake::FenceIgnored | ModelMistake::LimitDies => (SUSPENDED, QUOTA),
            ModelMistake::ClockStops => (OWN_CLOCK, QUOTA),
            ModelMistake::GrantTwice | ModelMistake::OtherTerms | ModelMistake::MirrorOutOfOrder => (SMALL, STATE),
            ModelMistake::GiveBackUnseen
            | ModelMistake::RenewalOverlooked
            | ModelMistake::WaitFromWrongInstant
            | ModelMistake::GrantNotFree => (SMALL, QUOTA),
        };
        let found = walk(BudgetModel { mistake: Some(mistake), ..world });
        println!("{mistake:?}: {:?}", found.assert_any_discovery(property).into_actions());
    }
}
