//! Evolutionary search for the arrival times that fill a true window most.

use fastrand::Rng;

use super::attack::{Attack, AttackSpace};

/// Number of the best attacks that have successors.
const ELITE: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct AttackOutcome {
    /// Units of the fullest true window, and its bound.
    pub(super) units: u64,
    pub(super) bound: u64,
    /// Units of a true window in percent of its bound, at most.
    pub(super) of_bound: f64,
    pub(super) calls: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SearchSize {
    pub(super) restarts: u64,
    pub(super) generations: u64,
    /// Attacks in a generation.
    pub(super) attacks: usize,
}

/// The attack with the fullest window, and the largest part of the bound that an attack reached.
#[derive(Clone, Debug, Default)]
pub(super) struct WorstAttack {
    pub(super) attack: Attack,
    pub(super) outcome: AttackOutcome,
    pub(super) of_bound: f64,
}

impl WorstAttack {
    /// Searches, beginning with known attacks. Every second search from the beginning is for the largest part of the bound, which
    /// differs where the bound contains calls of the attack.
    pub(super) fn search(
        space: &AttackSpace,
        known: &[Attack],
        size: SearchSize,
        seed: u64,
        mut evaluate: impl FnMut(&[Attack], u64) -> Vec<AttackOutcome>,
    ) -> Self {
        let (mut rng, mut worst) = (Rng::with_seed(seed), Self::default());
        for restart in 0..size.restarts {
            let mut elite: Vec<(Attack, AttackOutcome)> = Vec::new();
            for generation in 0..size.generations {
                let mut attacks: Vec<Attack> = (0..size.attacks).map(|_| successor(space, &elite, &mut rng)).collect();
                if generation == 0 {
                    attacks.extend_from_slice(known);
                }
                let outcomes = evaluate(&attacks, rng.u64(..));
                let mut tried: Vec<_> = attacks.into_iter().zip(outcomes).collect();
                for (attack, outcome) in &tried {
                    worst.enter(attack, *outcome);
                }
                // Of equal attacks, new ones stand first, so that the search moves on.
                tried.append(&mut elite);
                tried.sort_by(|(_, a), (_, b)| score(b, restart).total_cmp(&score(a, restart)));
                tried.dedup_by(|(a, _), (b, _)| a == b);
                tried.truncate(ELITE);
                elite = tried;
            }
        }
        worst
    }

    fn enter(&mut self, attack: &Attack, outcome: AttackOutcome) {
        // Of equal windows, that of the smaller attack.
        let is_worse = outcome.units > self.outcome.units
            || outcome.units == self.outcome.units && outcome.calls < self.outcome.calls;
        if is_worse {
            (self.attack, self.outcome) = (attack.clone(), outcome);
        }
        self.of_bound = self.of_bound.max(outcome.of_bound);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a number of units")]
fn score(outcome: &AttackOutcome, restart: u64) -> f64 {
    if restart.is_multiple_of(2) { outcome.units as f64 } else { outcome.of_bound }
}

/// Returns an attack that is random, or one of the best with changes, or two of them crossed.
fn successor(space: &AttackSpace, elite: &[(Attack, AttackOutcome)], rng: &mut Rng) -> Attack {
    // The best are drawn most often.
    let mut drawn = || elite.get(rng.usize(0..ELITE).min(rng.usize(0..ELITE)));
    match (drawn(), drawn(), rng.u8(0..10)) {
        (None, ..) | (.., 0) => space.random(rng),
        (Some((one, _)), Some((other, _)), 1 | 2) => space.crossed(one, other, rng),
        (Some((one, _)), ..) => space.changed(one, rng),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The search finds the most calls at one instant.
    #[test]
    fn a_search_finds_a_known_worst_case() {
        let space =
            AttackSpace { quota: 10, width_ms: 1_000, sub_window_ms: 100, end_ms: 3_000, agents: 1, calls_max: 50 };
        let evaluate = |attacks: &[Attack], _| {
            let outcome = |attack: &Attack| {
                let calls = attack.calls(1);
                let units = calls.iter().filter(|(at_ms, _)| *at_ms == 1_234).count() as u64;
                AttackOutcome { units, bound: 50, of_bound: 0.0, calls: calls.len() as u64 }
            };
            attacks.iter().map(outcome).collect()
        };
        let size = SearchSize { restarts: 1, generations: 200, attacks: 30 };
        assert!(WorstAttack::search(&space, &[], size, 1, evaluate).outcome.units >= 45);
    }
}
