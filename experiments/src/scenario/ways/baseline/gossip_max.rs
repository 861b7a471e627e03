//! Gossip merged by maximum: each node keeps one count per caller and minute, and takes the largest that it hears.
//!
//! Source 002 as written (`merge_gossip`). The maximum of the counts of several nodes is not their sum.

use std::rc::Rc;

use tollgate_core::rules::Quota;

use super::counts::{FIXED_BYTES, FixedCount};
use super::gossip;
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct GossipMax {
    quota: Quota,
    counts: Vec<Vec<FixedCount>>,
}

#[derive(Clone, Copy)]
pub(super) struct MinuteCount {
    caller: usize,
    count: FixedCount,
}

impl GossipMax {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, counts: vec![vec![FixedCount::default(); trial.callers]; trial.nodes] }
    }
}

impl Limiter for GossipMax {
    type Message = Rc<[MinuteCount]>;

    fn start(&mut self, net: &mut PeerNetwork<Self::Message>) {
        gossip::start(net);
    }

    fn call(&mut self, net: &mut PeerNetwork<Self::Message>, call: ArrivedCall) {
        let units = self.counts[call.node][call.caller].units(net.now(), self.quota);
        let is_admitted = *units < self.quota.units();
        *units += u64::from(is_admitted);
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut PeerNetwork<Self::Message>, to: Side, message: Self::Message) {
        let Side::Node(node) = to else { return };
        for MinuteCount { caller, count } in message.iter() {
            self.counts[node][*caller].merge(*count, net.now(), self.quota);
        }
    }

    fn wake(&mut self, net: &mut PeerNetwork<Self::Message>, node: usize) {
        let (now, quota) = (net.now(), self.quota);
        let counts = self.counts[node].iter_mut().enumerate().filter_map(|(caller, count)| {
            let is_used = *count.units(now, quota) > 0;
            is_used.then_some(MinuteCount { caller, count: *count })
        });
        let message: Rc<[MinuteCount]> = counts.collect();
        gossip::round(net, node, message.len(), &message);
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: FIXED_BYTES, store: 0 }
    }
}
