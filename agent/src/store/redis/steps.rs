//! One step on a line: the keys it declares, what is sent, what comes back.
//!
//! All keys of a counter have one hash tag, and with it one place in a cluster: its slot. A counter that lies by itself is
//! named by its slot alone. Beside it lie the requests that were charged on it and the units that may yet be given back.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::counter::{CounterId, RequestId, SlotId};

use super::codec::{Manner, Packed, Stepped};
use super::line::{Connection, Line};
use crate::store::StoreError;
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;

/// Runs steps, and knows where things lie.
#[derive(Clone)]
pub(super) struct Steps {
    pub(super) prefix: Arc<str>,
    pub(super) line: Arc<Line>,
}

impl Steps {
    pub(super) fn new(prefix: &str, line: Arc<Line>) -> Self {
        Self { prefix: prefix.into(), line }
    }

    /// Judges and charges these counters in one step.
    pub(super) async fn run(&self, takes: &[Charge], manner: Manner) -> Result<ChargeResults, StoreError> {
        let connection = self.line.current()?;
        self.run_on(&connection, takes, manner).await
    }

    /// The same on this connection, so that steps keep their order.
    pub(super) async fn run_on(
        &self,
        connection: &Arc<Connection>,
        takes: &[Charge],
        manner: Manner,
    ) -> Result<ChargeResults, StoreError> {
        let packed: SmallVec<[Packed; 2]> = takes.iter().map(|take| Packed::new(take, manner)).collect();
        let reply: Vec<u8> = self.line.run_on(connection, &self.line.take, &self.keys(takes, manner), &packed).await?;
        let answers = Stepped::read(&reply).and_then(|stepped| stepped.answers(takes));
        answers.unwrap_or_else(|| Err(self.line.troubles.nonsense()))
    }

    /// The counters, then what each wants besides.
    fn keys(&self, takes: &[Charge], manner: Manner) -> SmallVec<[String; 2]> {
        let mut keys: SmallVec<[String; 2]> = takes.iter().map(|take| self.counter(take.slot, take.counter)).collect();
        for (place, take) in takes.iter().enumerate() {
            if let Some(id) = take.request {
                keys.push(request(&keys[place], id));
            }
            if manner.sees_tentative() {
                keys.push(tentative(&keys[place]));
            }
        }
        keys
    }

    /// Where a counter lies.
    pub(super) fn counter(&self, slot: SlotId, counter: CounterId) -> String {
        let prefix = &self.prefix;
        if slot.is_of(counter) { format!("{prefix}{{{slot}}}") } else { format!("{prefix}{{{slot}}}{counter}") }
    }
}

/// Where it lies that this request was charged on a counter.
pub(super) fn request(counter: &str, id: RequestId) -> String {
    format!("{counter}:{id}")
}

/// Where those units of a counter lie that may yet be given back.
pub(super) fn tentative(counter: &str) -> String {
    format!("{counter}:t")
}
