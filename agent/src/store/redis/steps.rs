//! One run of the charge script: its keys, its arguments and its answer.
//!
//! All keys of a counter have one hash tag, and with it one slot of a cluster. A counter with a slot of its own is named by
//! the slot alone. Beside the counter are the request ids charged on it and its tentative units.

use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::counter::{Charge, ChargeResults, CounterId, RequestId, SlotId};
use tollgate_redis::{Connection, RequestError, Script, Socket};

use super::codec::{Manner, Packed, Stepped};
use crate::store::StoreError;

const CHARGE: &str = concat!(
    include_str!("../lua/counter.lua"),
    include_str!("../lua/log.lua"),
    include_str!("../lua/meter.lua"),
    include_str!("../lua/reserve.lua"),
    include_str!("../lua/switch.lua"),
    include_str!("../lua/back.lua"),
    include_str!("../lua/exact.lua"),
    include_str!("../lua/tentative.lua"),
    include_str!("../lua/evaluate.lua"),
    include_str!("../lua/settle.lua"),
);

/// Binds `now` to the last argument: the clock of a test.
#[cfg(test)]
const TEST_TIME: &str = "local now = tonumber(table.remove(ARGV))\n";

/// Runs the charge script.
#[derive(Clone)]
pub(super) struct Steps {
    pub(super) prefix: Arc<str>,
    pub(super) connection: Arc<Connection>,
    script: Arc<Script>,
    #[cfg(test)]
    clock: Option<Arc<dyn tollgate_core::clock::Clock>>,
}

/// The script that charges counters; without keys it returns the store's time.
pub(super) fn charge_script() -> Script {
    Script::at_store_time(CHARGE)
}

impl Steps {
    pub(super) fn new(prefix: &str, connection: Arc<Connection>) -> Self {
        Self {
            prefix: prefix.into(),
            connection,
            script: Arc::new(charge_script()),
            #[cfg(test)]
            clock: None,
        }
    }

    /// The same by a test's clock.
    #[cfg(test)]
    pub(super) fn at_test_time(self, clock: Arc<dyn tollgate_core::clock::Clock>) -> Self {
        Self { script: Arc::new(Script::new(&format!("{TEST_TIME}{CHARGE}"))), clock: Some(clock), ..self }
    }

    /// Evaluates and charges these counters in one step.
    pub(super) async fn run(&self, takes: &[Charge], manner: Manner) -> Result<ChargeResults, StoreError> {
        let socket = self.connection.socket().map_err(store_error)?;
        self.run_on(&socket, takes, manner).await
    }

    /// The same on this socket, so that steps keep their order.
    pub(super) async fn run_on(
        &self,
        socket: &Arc<Socket>,
        takes: &[Charge],
        manner: Manner,
    ) -> Result<ChargeResults, StoreError> {
        #[cfg_attr(not(test), expect(unused_mut, reason = "a test adds its time"))]
        let mut args: SmallVec<[Packed; 2]> = takes.iter().map(|take| Packed::new(take, manner)).collect();
        #[cfg(test)]
        args.extend(self.clock.as_ref().map(|clock| Packed::test_time(clock.now())));
        let keys = self.keys(takes, manner);
        let reply: Result<Vec<u8>, _> = self.connection.run_on(socket, &self.script, &keys, &args).await;
        let reply = reply.map_err(store_error)?;
        let answers = Stepped::read(&reply).and_then(|stepped| stepped.answers(takes));
        answers.unwrap_or_else(|| Err(store_error(self.connection.answer_unreadable())))
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

    /// Key of a counter.
    pub(super) fn counter(&self, slot: SlotId, counter: CounterId) -> String {
        let prefix = &self.prefix;
        if slot.is_of(counter) { format!("{prefix}{{{slot}}}") } else { format!("{prefix}{{{slot}}}{counter}") }
    }
}

/// Key of a request id that was charged on a counter.
pub(super) fn request(counter: &str, id: RequestId) -> String {
    format!("{counter}:{id}")
}

/// Key of the tentative units of a counter.
pub(super) fn tentative(counter: &str) -> String {
    format!("{counter}:t")
}

/// The store's error for an error of its server.
pub(in crate::store) fn store_error(error: RequestError) -> StoreError {
    match error {
        RequestError::Unreachable => StoreError::Unreachable,
        RequestError::Busy => StoreError::Busy,
        RequestError::Full => StoreError::Full,
        RequestError::Unreadable => StoreError::Unreadable,
        RequestError::Refused => StoreError::Refused,
        _ => StoreError::TimedOut,
    }
}
