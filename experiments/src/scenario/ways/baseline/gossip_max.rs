//! Gossip merged by maximum: each node keeps one count per caller and minute, and takes the largest that it hears.
//!
//! Source 002 as written (`merge_gossip`). The maximum of the counts of several nodes is not their sum.

use std::rc::Rc;

use tollgate_core::rules::Quota;

use super::counts::{FIXED_BYTES, FixedCount};
use super::gossip;
use crate::scenario::ways::network::{CounterBytes, Limiter, Network, Place, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct GossipMax {
    quota: Quota,
    counts: Vec<Vec<FixedCount>>,
}

impl GossipMax {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, counts: vec![vec![FixedCount::default(); trial.callers]; trial.nodes] }
    }
}

impl Limiter for GossipMax {
    type Message = Rc<[(usize, u64)]>;

    fn start(&mut self, net: &mut Network<Self::Message>) {
        gossip::start(net);
    }

    fn call(&mut self, net: &mut Network<Self::Message>, call: ArrivedCall) {
        let units = self.counts[call.node][call.caller].units(net.now(), self.quota);
        let is_admitted = *units < self.quota.units();
        *units += u64::from(is_admitted);
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut Network<Self::Message>, to: Place, message: Self::Message) {
        let Place::Node(node) = to else { return };
        for (caller, heard) in message.iter() {
            let units = self.counts[node][*caller].units(net.now(), self.quota);
            *units = (*units).max(*heard);
        }
    }

    fn wake(&mut self, net: &mut Network<Self::Message>, node: usize) {
        let (now, quota) = (net.now(), self.quota);
        let counts = self.counts[node].iter_mut().map(|count| *count.units(now, quota)).enumerate();
        let message: Rc<[(usize, u64)]> = counts.filter(|(_, units)| *units > 0).collect();
        gossip::round(net, node, message.len(), &message);
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: FIXED_BYTES, store: 0 }
    }
}
