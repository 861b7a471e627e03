//! Worlds that are made for an instant: terms take another window.

use fastrand::Rng;
use tollgate_sim::regions::{CallerPlan, RegionsSettings, TermsChange};

use super::{CALM_MS, NAMES, RUN_MS, WINDOWS, directed, region, terms, with_window};

/// Returns a world in which a holder spends all that it has and is then cut off, or all of its machine is suspended, at about
/// the instant at which the terms take another window.
pub(crate) fn changed_window(seed: u64) -> RegionsSettings {
    let mut rng = Rng::with_seed(seed);
    let always = |per_minute| CallerPlan { counter: 0, from_ms: 0, until_ms: RUN_MS, per_minute };
    let mut holder = region(NAMES[1], 1, vec![always(600)]);
    let mut changes = vec![TermsChange { at_ms: 0, terms: terms(60, 5, &NAMES[..2]) }];
    let mut from_ms = 10_000;
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(20_000..60_000)).min(CALM_MS);
        if rng.bool() { &mut holder.link.cuts } else { &mut holder.machine_pauses }.push((from_ms, until_ms));
        let next = with_window(terms(60, 5, &NAMES[..2]), WINDOWS[rng.usize(..WINDOWS.len())]);
        changes.push(TermsChange { at_ms: (from_ms + rng.u64(0..4_000)).saturating_sub(3_500), terms: next });
        from_ms = until_ms + rng.u64(5_000..20_000);
    }
    (1..).zip(&mut changes).for_each(|(generation, change)| change.terms.generation = generation);
    let mut settings = directed(seed, region(NAMES[0], 1, vec![always(600)]), holder);
    settings.coordinator_faults.restart_every_ms = [0, 30_000][rng.usize(..2)];
    settings.terms = changes;
    settings
}
