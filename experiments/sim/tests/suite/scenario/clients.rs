//! The clients of a run: what they do after an answer. They settle or release calls, and some try denied calls again.

use std::collections::btree_map::{BTreeMap, OccupiedEntry};

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_sim::{AnsweredCall, Simulation, Workload};

/// Number of denials in a row after which a client gives a call up.
const DENIALS_MAX: u32 = 5;
/// Maximum time after which a client that ignores `Retry-After` tries again, in ms.
const IMPATIENT_MS_MAX: u64 = 20;
/// Maximum time by which a client that honours it comes later, in ms.
const LATE_MS_MAX: u64 = 5;

/// Way in which clients take a denial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retrying {
    Never,
    /// After the time that the denial names.
    Honouring,
    /// At once, again and again.
    Ignoring,
}

pub(crate) struct Clients {
    retrying: Retrying,
    workload: Workload,
    rng: Rng,
    /// Calls that are tried again, by their instants and their places among all.
    retries: BTreeMap<(Timestamp, usize), (usize, Call<'static>)>,
    pub(crate) retried: usize,
    /// Denials in a row, by the descriptors of the calls.
    denials: BTreeMap<String, u32>,
}

impl Retrying {
    /// Draws the way of a run: half of the clients never try again.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        [Self::Never, Self::Never, Self::Honouring, Self::Ignoring][rng.usize(0..4)]
    }
}

impl Clients {
    pub(crate) fn new(seed: u64, retrying: Retrying) -> Self {
        Self {
            retrying,
            workload: Workload::new(seed, 1, 0.0),
            rng: Rng::with_seed(seed),
            retries: BTreeMap::new(),
            retried: 0,
            denials: BTreeMap::new(),
        }
    }

    /// Returns the instant of the next call that is tried again.
    pub(crate) fn next_at(&self) -> Option<Timestamp> {
        self.retries.first_key_value().map(|((at, _), _)| *at)
    }

    /// Returns the next call that is due, and the agent that it reaches.
    pub(crate) fn next_due(&mut self, now: Timestamp) -> Option<(usize, Call<'static>)> {
        self.retries.first_entry().filter(|next| next.key().0 <= now).map(OccupiedEntry::remove)
    }

    pub(crate) fn answered(&mut self, sim: &mut Simulation<'static>, answered: AnsweredCall<'static>) {
        if let Some(correction) = self.workload.correction(&answered) {
            sim.correct(answered.agent, answered.call, correction);
        } else if !answered.is_joint && self.retrying != Retrying::Never {
            self.try_again(sim.now(), answered);
        }
    }

    fn try_again(&mut self, now: Timestamp, answered: AnsweredCall<'static>) {
        let denials = self.denials.entry(format!("{:?}", answered.call)).or_default();
        *denials = if answered.decision.allowed { 0 } else { *denials + 1 };
        if !(1..DENIALS_MAX).contains(denials) {
            return;
        }
        let status = answered.decision.status.as_ref();
        let wait_ms = match self.retrying {
            Retrying::Ignoring => self.rng.u64(0..=IMPATIENT_MS_MAX),
            _ => status.map_or(0, |status| status.retry_after_ms) + self.rng.u64(0..=LATE_MS_MAX),
        };
        self.retried += 1;
        self.retries.insert((now.plus_ms(wait_ms), self.retried), (answered.agent, answered.call));
    }
}
