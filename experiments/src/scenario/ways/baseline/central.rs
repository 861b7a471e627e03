//! Central store: each call asks a store that decides in one atomic step.

use tollgate_core::clock::Timestamp;

use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side};
use crate::scenario::ways::workload::ArrivedCall;

/// A step of a store on one counter.
pub(super) trait StoreStep {
    /// Decides a call. Returns the time that it has to wait if it is admitted, in ms.
    fn step(&mut self, caller: usize, now: Timestamp) -> Option<u64>;

    /// Returns the bytes of a full counter.
    fn bytes(&self) -> u64;
}

/// A store that decides each call.
pub(super) struct CentralStore<S>(pub(super) S);

#[derive(Clone, Copy)]
pub(super) enum CentralMessage {
    Check(ArrivedCall),
    Answer(ArrivedCall, Option<u64>),
}

impl<S: StoreStep> Limiter for CentralStore<S> {
    type Message = CentralMessage;

    fn call(&mut self, net: &mut PeerNetwork<CentralMessage>, call: ArrivedCall) {
        net.ask(CentralMessage::Check(call));
    }

    fn receive(&mut self, net: &mut PeerNetwork<CentralMessage>, _to: Side, message: CentralMessage) {
        match message {
            CentralMessage::Check(call) => {
                let answer = self.0.step(call.caller, net.now());
                net.reply(call.node, CentralMessage::Answer(call, answer));
            }
            CentralMessage::Answer(call, Some(delay_ms)) => net.answer_after(delay_ms, call, true),
            CentralMessage::Answer(call, None) => net.answer(call, false),
        }
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: 0, store: self.0.bytes() }
    }
}
