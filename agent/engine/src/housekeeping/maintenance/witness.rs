//! The witness: a number in the store that the agent raises each second, by which it sees that the store went back.
//!
//! The number belongs to one life of one agent, and the store only raises it. So if it is lower than the last one that
//! was acknowledged, or missing, the store has lost everything since: by a flush, a restart without data, or a failover
//! to a replica that lacked the newest writes. A new run id of the store, or a new connection, proves no loss. No clock
//! is compared.
//!
//! The answer also has the run id of the store's process. A connection that goes through a proxy outlives a failover.
//! The replica that took over may lack leased units that were charged after the last witness, so another run id ends
//! all leases.

use tollgate_core::clock::Timestamp;

use crate::store::WitnessedLoss;

/// Interval at which the number is raised, in ms.
const INTERVAL_MS: u64 = 1_000;
/// Time for which the store keeps a number that nobody raises, in ms.
pub const WITNESS_KEPT_MS: u64 = 86_400_000;

/// Answer of the store to a raised number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessAnswer {
    /// Time of the store.
    pub at: Timestamp,
    /// Number before, if there was one.
    pub before: Option<u64>,
    /// Beginning of the run id of the store's process, if it tells one.
    pub run_id: Option<u64>,
}

/// Numbers of this life of the agent.
#[derive(Debug, Default)]
pub(super) struct Witness {
    sent: u64,
    acknowledged: Option<Acknowledged>,
    run_id: Option<u64>,
    is_asking: bool,
    /// Agent's own time at which the number was sent last.
    sent_at: Timestamp,
    due_at: Timestamp,
}

/// Number that the store has acknowledged, the agent's own time then, and the store's.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    number: u64,
    received: Timestamp,
    at: Timestamp,
}

impl Witness {
    /// Returns the time from which the number is to be raised; nothing while an answer is awaited.
    pub(super) fn due_at(&self) -> Option<Timestamp> {
        (!self.is_asking).then_some(self.due_at)
    }

    pub(super) fn sent_at(&self) -> Timestamp {
        self.sent_at
    }

    pub(super) fn next(&mut self, now: Timestamp) -> u64 {
        (self.is_asking, self.sent_at) = (true, now);
        self.due_at = now.plus_ms(INTERVAL_MS);
        self.sent += 1;
        self.sent
    }

    /// Records the answer to the last number, if there is one; returns the loss that it shows.
    pub(super) fn answered(&mut self, now: Timestamp, answer: Option<WitnessAnswer>) -> Option<WitnessedLoss> {
        self.is_asking = false;
        let WitnessAnswer { at, before, .. } = answer?;
        let acknowledged = Acknowledged { number: self.sent, received: now, at };
        let last = self.acknowledged.replace(acknowledged)?;
        let is_lost = match before {
            Some(before) => before < last.number,
            // Unless it has expired.
            None => now.ms_since(last.received) < WITNESS_KEPT_MS / 2,
        };
        is_lost.then_some(WitnessedLoss { proven: last.at, noticed: at })
    }

    /// Forgets the last number that was acknowledged: if it is missing, nothing follows from that.
    pub(super) fn forget(&mut self) {
        self.acknowledged = None;
    }

    /// Records the run id in an answer; returns true if another process of the store had answered before.
    pub(super) fn is_of_another_run(&mut self, answer: &WitnessAnswer) -> bool {
        let Some(run_id) = answer.run_id else { return false };
        self.run_id.replace(run_id).is_some_and(|known| known != run_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    /// I12: a missing or older number is a loss, and nothing else is.
    #[test]
    fn only_a_number_that_was_acknowledged_and_is_gone_witnesses_a_loss() {
        // Name, numbers that the store held before each answer (none: no answer arrived), time between them, losses seen.
        type Case = (&'static str, &'static [Option<Option<u64>>], u64, u32);
        let cases: [Case; 7] = [
            ("a new store", &[Some(None)], 1_000, 0),
            ("kept", &[Some(None), Some(Some(1)), Some(Some(2))], 1_000, 0),
            ("flushed", &[Some(None), Some(Some(1)), Some(None), Some(Some(3))], 1_000, 1),
            ("a lost tail", &[Some(None), Some(Some(1)), Some(Some(1)), Some(Some(3))], 1_000, 1),
            ("a lost answer", &[Some(None), None, Some(Some(2)), Some(Some(3))], 1_000, 0),
            ("a request that never arrived", &[Some(None), None, Some(Some(1))], 1_000, 0),
            ("expired", &[Some(None), Some(None)], WITNESS_KEPT_MS, 0),
        ];
        for (name, held, interval_ms, losses) in cases {
            let (mut witness, mut now, mut seen) = (Witness::default(), at(1_000_000), 0);
            for before in held {
                now = now.plus_ms(interval_ms);
                witness.next(now);
                let answer = before.map(|before| WitnessAnswer { at: now, before, run_id: None });
                seen += u32::from(witness.answered(now, answer).is_some());
            }
            assert_eq!(seen, losses, "{name}");
        }
    }
}
