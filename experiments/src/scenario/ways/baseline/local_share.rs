//! Local share: each node admits its part of the quota, and asks nobody.
//!
//! Source 002, "Local-only counters", with the quota divided by the number of nodes. The first nodes have the remainder.

use super::counts::{RING_BYTES, Rings};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct LocalShare {
    rings: Rings,
    quota: u64,
}

impl LocalShare {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { rings: Rings::new(trial.nodes, trial.callers, trial.quota), quota: trial.quota.units() }
    }
}

impl Limiter for LocalShare {
    type Message = ();

    fn call(&mut self, net: &mut PeerNetwork<()>, call: ArrivedCall) {
        let (nodes, node) = (net.nodes as u64, call.node as u64);
        let part = self.quota / nodes + u64::from(node < self.quota % nodes);
        let is_admitted = self.rings.admit_up_to(part, call.node, call.caller, net.now());
        net.answer(call, is_admitted);
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: RING_BYTES, store: 0 }
    }
}
