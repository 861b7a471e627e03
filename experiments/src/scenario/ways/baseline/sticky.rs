//! Sticky sessions: the load balancer sends each caller to one node, which counts alone.
//!
//! Source 000, "Sticky sessions". When nodes are added, callers are stuck to other nodes, which know nothing of their calls.

use fastrand::Rng;
use tollgate_core::clock::Timestamp;

use super::counts::{RING_BYTES, Rings};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct Sticky {
    rings: Rings,
    /// Node of each caller, before and after nodes were added.
    nodes: Vec<[usize; 2]>,
    added: Timestamp,
}

impl Sticky {
    pub(super) fn new(trial: &Trial) -> Self {
        let mut rng = Rng::with_seed(trial.seed);
        let all = trial.nodes + trial.nodes.div_ceil(2);
        let nodes = (0..trial.callers).map(|_| {
            let first = rng.usize(0..trial.nodes);
            [first, (first + 1 + rng.usize(0..all - 1)) % all]
        });
        Self { rings: Rings::new(all, trial.callers, trial.quota), nodes: nodes.collect(), added: trial.incident }
    }
}

impl Limiter for Sticky {
    type Message = ();

    fn call(&mut self, net: &mut PeerNetwork<()>, call: ArrivedCall) {
        let node = self.nodes[call.caller][usize::from(net.now() >= self.added)];
        let is_admitted = self.rings.admit(node, call.caller, net.now());
        net.answer(call, is_admitted);
    }

    /// One node has a caller's ring.
    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: RING_BYTES, store: 0 }
    }
}
