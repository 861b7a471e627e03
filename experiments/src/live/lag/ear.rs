//! What one agent has learnt of all keys.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::messages::signals::SignalBatch;

use super::RULE;
use super::calls::{Calls, News, as_us};

pub(super) struct Ear {
    agent: u32,
    calls: Arc<Calls>,
    /// Each counter's key, and how many of its calls are known.
    known: HashMap<CounterId, (u32, u64), RandomState>,
}

impl Ear {
    pub(super) fn new(agent: u32, calls: Arc<Calls>) -> Self {
        let digest = DigestKey::default();
        let counter = |key| (digest.counter(RULE, [Calls::name(key).as_str()]), (key, 0));
        let known = (0..calls.keys()).map(counter).collect();
        Self { agent, calls, known }
    }

    /// The agent has learnt this.
    pub(super) fn hear(&mut self, batch: &SignalBatch, appended: Timestamp) {
        let news = News {
            heard: as_us(self.calls.now()),
            counted: self.calls.us_at(batch.as_of_appended),
            said: self.calls.us_at(appended),
        };
        for signal in &batch.signals {
            let Some((key, known)) = self.known.get_mut(&signal.counter) else { continue };
            let total = signal.denied + signal.admitted.counts().map(|(_, units)| units).sum::<u64>();
            if total > *known {
                self.calls.learnt(self.agent, *key, (*known, total), news);
                *known = total;
            }
        }
    }
}
