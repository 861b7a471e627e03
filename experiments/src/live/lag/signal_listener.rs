//! Receipt of signals at one agent, by key.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::messages::signals::SignalBatch;

use super::calls::{Calls, SignalInstants};
use super::plan::RULE;

/// Records the signals of one agent.
pub(super) struct SignalListener {
    agent: u32,
    calls: Arc<Calls>,
    /// Key of each counter, and the number of its calls that are known.
    known: HashMap<CounterId, (u32, u64), RandomState>,
}

impl SignalListener {
    pub(super) fn new(agent: u32, calls: Arc<Calls>) -> Self {
        let digest = DigestKey::default();
        let counter = |key| (digest.counter(RULE, [Calls::name(key).as_str()]), (key, 0));
        let known = (0..calls.keys).map(counter).collect();
        Self { agent, calls, known }
    }

    /// Records a batch of signals that was received at this instant of the run, in microseconds.
    pub(super) fn receive(&mut self, batch: &SignalBatch, appended: Timestamp, received: u64) {
        let at = SignalInstants {
            received,
            counted: self.calls.us_at(batch.as_of_appended),
            signalled: self.calls.us_at(appended),
        };
        for signal in &batch.signals {
            let Some((key, known)) = self.known.get_mut(&signal.counter) else { continue };
            let total = signal.denied + signal.admitted.counts().map(|(_, units)| units).sum::<u64>();
            if total > *known {
                self.calls.received(self.agent, *key, (*known, total), at);
                *known = total;
            }
        }
    }
}
