//! Chatty broadcast: each node tells all others of each admission, and counts what it hears.
//!
//! Source 000, "Chatty servers", with counts that are pushed: N - 1 messages for an admission.

use super::counts::{RING_BYTES, Rings};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct Broadcast {
    rings: Rings,
}

#[derive(Clone, Copy)]
pub(super) struct AdmittedCaller(usize);

impl Broadcast {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { rings: Rings::new(trial.nodes, trial.callers, trial.quota) }
    }
}

impl Limiter for Broadcast {
    type Message = AdmittedCaller;

    fn call(&mut self, net: &mut PeerNetwork<AdmittedCaller>, call: ArrivedCall) {
        let is_admitted = self.rings.admit(call.node, call.caller, net.now());
        if is_admitted {
            net.send_to_all(Some(call.node), &AdmittedCaller(call.caller));
        }
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut PeerNetwork<AdmittedCaller>, to: Side, message: AdmittedCaller) {
        if let Side::Node(node) = to {
            self.rings.add(node, message.0, net.now(), 1);
        }
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: RING_BYTES, store: 0 }
    }
}
