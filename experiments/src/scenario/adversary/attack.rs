//! Attacks: arrival times of one caller, as trains of bursts, and their random changes.

use fastrand::Rng;
use tollgate_core::rules::LimitPolicy;

const TRAINS_MAX: usize = 6;
const BURSTS_MAX: u64 = 300;
/// Largest distance of an instant from an edge of a sub-window near which it is drawn, in ms.
const EDGE_MS: u64 = 2;

/// Arrival times of one caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Attack {
    trains: Vec<BurstTrain>,
}

/// Bursts of equal size at equal distances.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BurstTrain {
    first_ms: u64,
    gap_ms: u64,
    bursts: u64,
    size: u64,
    /// Agent of the calls; the number of agents spreads them over all.
    agent: usize,
}

/// All attacks on a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttackSpace {
    pub(super) quota: u64,
    pub(super) width_ms: u64,
    pub(super) sub_window_ms: u64,
    pub(super) end_ms: u64,
    pub(super) agents: usize,
    pub(super) calls_max: u64,
}

impl BurstTrain {
    fn calls(&self) -> u64 {
        self.bursts * self.size
    }
}

impl Attack {
    /// Returns an attack of single bursts: their instants, sizes and agents.
    pub(super) fn of_bursts(bursts: impl IntoIterator<Item = (u64, u64, usize)>) -> Self {
        let train = |(first_ms, size, agent)| BurstTrain { first_ms, gap_ms: 1, bursts: 1, size, agent };
        Self { trains: bursts.into_iter().map(train).collect() }
    }

    /// Returns the instants and the agents of all calls, in order of time.
    pub(super) fn calls(&self, agents: usize) -> Vec<(u64, usize)> {
        let mut calls = Vec::new();
        for train in &self.trains {
            let instants = (0..train.bursts).map(|burst| train.first_ms + burst * train.gap_ms);
            let sizes = usize::try_from(train.size).expect("a small burst");
            calls.extend(instants.flat_map(|at_ms| {
                let agent = move |call| if train.agent < agents { train.agent } else { call % agents };
                (0..sizes).map(move |call| (at_ms, agent(call)))
            }));
        }
        calls.sort_by_key(|(at_ms, _)| *at_ms);
        calls
    }
}

impl AttackSpace {
    /// Returns the attacks until `end_ms` on a rule of this policy, with so many quotas of calls.
    pub(super) fn of(policy: &LimitPolicy, agents: usize, end_ms: u64, quotas: u64) -> Self {
        let (quota, window) = (policy.quota.units(), policy.window);
        let (width_ms, sub_window_ms) = (window.width_ms(), window.sub_window_ms());
        Self { quota, width_ms, sub_window_ms, end_ms, agents, calls_max: quotas * quota }
    }

    pub(super) fn random(&self, rng: &mut Rng) -> Attack {
        let mut trains: Vec<BurstTrain> = (0..rng.usize(1..=3)).map(|_| self.random_train(rng)).collect();
        // Half of the attacks repeat a train just within a window.
        if rng.bool() {
            let within_ms = self.width_ms - uneven(self.sub_window_ms, rng);
            let again = BurstTrain { first_ms: trains[0].first_ms + within_ms, ..trains[0].clone() };
            trains.push(again);
        }
        self.within(Attack { trains })
    }

    /// Returns an attack with a few random changes.
    pub(super) fn changed(&self, attack: &Attack, rng: &mut Rng) -> Attack {
        let mut attack = attack.clone();
        for _ in 0..rng.usize(1..=3) {
            self.change(&mut attack, rng);
        }
        self.within(attack)
    }

    /// Returns an attack with some trains of both.
    pub(super) fn crossed(&self, one: &Attack, other: &Attack, rng: &mut Rng) -> Attack {
        let both = one.trains.iter().chain(&other.trains);
        self.within(Attack { trains: both.filter(|_| rng.bool()).cloned().collect() })
    }

    fn random_train(&self, rng: &mut Rng) -> BurstTrain {
        let bursts = if rng.bool() { 1 } else { rng.u64(2..=BURSTS_MAX) };
        BurstTrain {
            first_ms: self.instant(rng),
            gap_ms: uneven(self.width_ms, rng),
            bursts,
            size: if rng.bool() { self.quota } else { uneven(2 * self.quota, rng) },
            agent: rng.usize(0..=self.agents),
        }
    }

    /// Draws half of the instants at an edge of a sub-window, where counts change.
    fn instant(&self, rng: &mut Rng) -> u64 {
        let at_ms = rng.u64(0..self.end_ms);
        if rng.bool() { at_ms } else { self.near_edge(at_ms, rng) }
    }

    fn near_edge(&self, at_ms: u64, rng: &mut Rng) -> u64 {
        (at_ms / self.sub_window_ms * self.sub_window_ms + rng.u64(0..=2 * EDGE_MS)).saturating_sub(EDGE_MS)
    }

    fn change(&self, attack: &mut Attack, rng: &mut Rng) {
        let place = rng.usize(0..attack.trains.len().max(1));
        let Some(train) = attack.trains.get_mut(place) else { return attack.trains.push(self.random_train(rng)) };
        let shift_ms = [uneven(self.width_ms, rng), 1, self.sub_window_ms, self.width_ms][rng.usize(0..4)];
        match rng.u8(0..10) {
            0 | 1 => train.first_ms = shifted(train.first_ms, shift_ms, rng),
            2 => train.first_ms = self.near_edge(train.first_ms + rng.u64(0..=self.sub_window_ms), rng),
            3 => train.size = [uneven(2 * self.quota, rng), self.quota, train.size + 1][rng.usize(0..3)],
            4 => train.bursts = [1, uneven(BURSTS_MAX, rng), train.bursts + 1][rng.usize(0..3)],
            5 => train.gap_ms = shifted(train.gap_ms, uneven(train.gap_ms.max(2), rng), rng).max(1),
            6 => train.agent = rng.usize(0..=self.agents),
            7 => attack.trains.push(self.random_train(rng)),
            8 => drop(attack.trains.swap_remove(place)),
            _ => {
                let first_ms =
                    shifted(train.first_ms + rng.u64(0..=2 * EDGE_MS), shift_ms, rng).saturating_sub(EDGE_MS);
                let copy = BurstTrain { first_ms, agent: rng.usize(0..=self.agents), ..train.clone() };
                attack.trains.push(copy);
            }
        }
    }

    /// Shortens an attack to the caps of its calls and its time.
    fn within(&self, mut attack: Attack) -> Attack {
        attack.trains.truncate(TRAINS_MAX);
        for train in &mut attack.trains {
            train.first_ms = train.first_ms.min(self.end_ms - 1);
            train.bursts = train.bursts.min(1 + (self.end_ms - 1 - train.first_ms) / train.gap_ms);
        }
        while attack.trains.iter().map(BurstTrain::calls).sum::<u64>() > self.calls_max {
            let largest = attack.trains.iter_mut().max_by_key(|train| train.calls()).expect("there are calls");
            if largest.size > largest.bursts {
                largest.size = largest.size.div_ceil(2);
            } else {
                largest.bursts = largest.bursts.div_ceil(2);
            }
        }
        attack
    }
}

/// Draws a number up to a maximum, small ones as often as large ones.
fn uneven(max: u64, rng: &mut Rng) -> u64 {
    let bits = rng.u32(0..=max.ilog2());
    rng.u64(1..=max >> bits)
}

/// Shifts an instant forward or back.
fn shifted(at_ms: u64, by_ms: u64, rng: &mut Rng) -> u64 {
    if rng.bool() { at_ms + by_ms } else { at_ms.saturating_sub(by_ms) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attacks_keep_to_their_time_and_their_calls() {
        let space = AttackSpace {
            quota: 100,
            width_ms: 60_000,
            sub_window_ms: 5_000,
            end_ms: 180_000,
            agents: 3,
            calls_max: 500,
        };
        let mut rng = Rng::with_seed(1);
        let mut attack = space.random(&mut rng);
        for _ in 0..10_000 {
            let other = space.random(&mut rng);
            attack =
                if rng.bool() { space.changed(&attack, &mut rng) } else { space.crossed(&attack, &other, &mut rng) };
            let calls = attack.calls(3);
            assert!(calls.len() <= 500 && calls.is_sorted_by_key(|(at_ms, _)| *at_ms), "{attack:?}");
            assert!(calls.iter().all(|(at_ms, agent)| *at_ms < 180_000 && *agent < 3), "{attack:?}");
        }
    }
}
