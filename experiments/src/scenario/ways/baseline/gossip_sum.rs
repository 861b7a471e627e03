//! Gossip with one count per node: each node sums the newest counts of all nodes that it has heard of.
//!
//! The counts are those of a grow-only counter (Shapiro and others, 2011). A changed count is sent in the next four rounds, so that it
//! reaches all nodes; source 002 sends "counters modified since the last gossip round". A node enters what is new to it in a ring.

use std::rc::Rc;

use super::counts::{RING_BYTES, Rings};
use super::gossip;
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

/// Number of rounds in which a changed count is sent.
const SENT_ROUNDS: u8 = 4;

pub(super) struct GossipSum {
    nodes: usize,
    callers: usize,
    rings: Rings,
    /// Newest count of each origin, by node, caller and origin.
    counts: Vec<u32>,
    /// Rounds in which each count is still to be sent, and the counts of each node of which there are any.
    rounds: Vec<u8>,
    changed: Vec<Vec<(u32, u32)>>,
}

/// The count of a caller's admissions at the node where they were.
#[derive(Clone, Copy)]
pub(super) struct OriginCount {
    caller: u32,
    origin: u32,
    count: u32,
}

impl GossipSum {
    pub(super) fn new(trial: &Trial) -> Self {
        let (nodes, callers) = (trial.nodes, trial.callers);
        Self {
            nodes,
            callers,
            rings: Rings::new(nodes, callers, trial.quota),
            counts: vec![0; nodes * callers * nodes],
            rounds: vec![0; nodes * callers * nodes],
            changed: vec![Vec::new(); nodes],
        }
    }

    fn place(&self, node: usize, caller: u32, origin: u32) -> usize {
        (node * self.callers + caller as usize) * self.nodes + origin as usize
    }

    /// Returns the units that are new.
    fn raise(&mut self, node: usize, raised: OriginCount) -> u32 {
        let OriginCount { caller, origin, count } = raised;
        let place = self.place(node, caller, origin);
        let new = count.saturating_sub(self.counts[place]);
        if new > 0 {
            self.counts[place] = count;
            if self.rounds[place] == 0 {
                self.changed[node].push((caller, origin));
            }
            self.rounds[place] = SENT_ROUNDS;
        }
        new
    }
}

impl Limiter for GossipSum {
    type Message = Rc<[OriginCount]>;

    fn start(&mut self, net: &mut PeerNetwork<Self::Message>) {
        gossip::start(net);
    }

    #[expect(clippy::cast_possible_truncation, reason = "few nodes and callers")]
    fn call(&mut self, net: &mut PeerNetwork<Self::Message>, call: ArrivedCall) {
        let is_admitted = self.rings.admit(call.node, call.caller, net.now());
        if is_admitted {
            let (caller, origin) = (call.caller as u32, call.node as u32);
            let count = 1 + self.counts[self.place(call.node, caller, origin)];
            self.raise(call.node, OriginCount { caller, origin, count });
        }
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut PeerNetwork<Self::Message>, to: Side, message: Self::Message) {
        let Side::Node(node) = to else { return };
        for heard in message.iter() {
            let new = self.raise(node, *heard);
            if new > 0 {
                self.rings.add(node, heard.caller as usize, net.now(), u64::from(new));
            }
        }
    }

    fn wake(&mut self, net: &mut PeerNetwork<Self::Message>, node: usize) {
        let (mut changed, mut message) = (std::mem::take(&mut self.changed[node]), Vec::new());
        changed.retain(|(caller, origin)| {
            let place = self.place(node, *caller, *origin);
            message.push(OriginCount { caller: *caller, origin: *origin, count: self.counts[place] });
            self.rounds[place] -= 1;
            self.rounds[place] > 0
        });
        self.changed[node] = changed;
        gossip::round(net, node, message.len(), &message.into());
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: RING_BYTES + 8 * self.nodes as u64, store: 0 }
    }
}
