//! Broadcast by publish and subscribe: each node publishes each admission to a broker, which tells all others.
//!
//! Source 002, "Why use gossip […] instead of a centralized pub/sub". N messages for an admission, and two ways instead of one.

use super::counts::{RING_BYTES, Rings};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct PubSub {
    rings: Rings,
}

#[derive(Clone, Copy)]
pub(super) struct PublishedAdmission {
    node: usize,
    caller: usize,
}

impl PubSub {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { rings: Rings::new(trial.nodes, trial.callers, trial.quota) }
    }
}

impl Limiter for PubSub {
    type Message = PublishedAdmission;

    fn call(&mut self, net: &mut PeerNetwork<PublishedAdmission>, call: ArrivedCall) {
        let is_admitted = self.rings.admit(call.node, call.caller, net.now());
        if is_admitted {
            net.publish(PublishedAdmission { node: call.node, caller: call.caller });
        }
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut PeerNetwork<PublishedAdmission>, to: Side, message: PublishedAdmission) {
        match to {
            Side::Store => net.send_to_all(Some(message.node), &message),
            Side::Node(node) => self.rings.add(node, message.caller, net.now(), 1),
        }
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: RING_BYTES, store: 0 }
    }
}
