//! A distributed counter for each sub-interval: nodes read the sum once the last of them has added its count.
//!
//! Rejected by source 004: "we could maintain a distributed counter for each subinterval which each client would decrement on syncing
//! its changes". Its section "Future work" adds the message by which the store tells that the counter is zero. A node adds its count
//! within 50 ms after the end of the sub-interval.

use std::collections::HashMap;

use tollgate_core::window::SubWindow;

use super::shared_counts::{SUB_INTERVAL_MS, SharedCountMessage, SharedCounts};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

const ADDED_MS_MAX: u64 = 50;

pub(super) struct SubIntervalCounter {
    shared: SharedCounts,
    /// Nodes that have added their count of a sub-interval, by caller.
    added: HashMap<(usize, SubWindow), usize>,
}

impl SubIntervalCounter {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { shared: SharedCounts::new(trial), added: HashMap::new() }
    }

    /// Sets the timer of a node after the end of the current sub-interval.
    fn wake_at_end(net: &mut PeerNetwork<SharedCountMessage>, node: usize) {
        let left_ms = SUB_INTERVAL_MS - net.now().as_ms() % SUB_INTERVAL_MS;
        let late_ms = net.rng.u64(0..=ADDED_MS_MAX);
        net.wake_after(left_ms + late_ms, node);
    }
}

impl Limiter for SubIntervalCounter {
    type Message = SharedCountMessage;

    fn start(&mut self, net: &mut PeerNetwork<SharedCountMessage>) {
        (0..net.nodes).for_each(|node| Self::wake_at_end(net, node));
    }

    fn call(&mut self, net: &mut PeerNetwork<SharedCountMessage>, call: ArrivedCall) {
        let is_admitted = self.shared.rings.admit(call.node, call.caller, net.now());
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut PeerNetwork<SharedCountMessage>, to: Side, message: SharedCountMessage) {
        match (to, message) {
            (Side::Store, SharedCountMessage::Add(caller, at, units)) => {
                self.shared.add(caller, at, units);
                let added = self.added.entry((caller, at)).or_default();
                *added += 1;
                if *added == net.nodes {
                    self.added.remove(&(caller, at));
                    net.send_to_all(None, &SharedCountMessage::IsComplete(caller, at));
                }
            }
            (Side::Store, SharedCountMessage::Read(node, caller, at)) => self.shared.read(net, node, caller, at),
            (Side::Node(node), SharedCountMessage::IsComplete(caller, at)) => {
                net.ask(SharedCountMessage::Read(node, caller, at));
            }
            (Side::Node(node), SharedCountMessage::Count(caller, at, units)) => {
                self.shared.replace(node, caller, at, units);
            }
            _ => {}
        }
    }

    fn wake(&mut self, net: &mut PeerNetwork<SharedCountMessage>, node: usize) {
        let at = self.shared.before(net.now());
        for caller in 0..self.shared.callers {
            let units = self.shared.own(node, caller, at);
            net.ask(SharedCountMessage::Add(caller, at, units));
        }
        Self::wake_at_end(net, node);
    }

    fn bytes(&self) -> CounterBytes {
        SharedCounts::bytes()
    }
}
