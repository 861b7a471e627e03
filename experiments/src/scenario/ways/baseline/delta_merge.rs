//! Asynchronous merging of deltas: at the end of each sub-interval, a node adds its count to the store, and reads the sum a while later.
//!
//! Rejected by source 004: "we could wait some preset amount of time into the next subinterval before syncing other clients' changes".
//! The wait is 200 ms. The clocks of the nodes agree.

use super::shared_counts::{SUB_INTERVAL_MS, SharedCountMessage, SharedCounts};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

const WAIT_MS: u64 = 200;

pub(super) struct DeltaMerge(SharedCounts);

impl DeltaMerge {
    pub(super) fn new(trial: &Trial) -> Self {
        Self(SharedCounts::new(trial))
    }
}

impl Limiter for DeltaMerge {
    type Message = SharedCountMessage;

    fn start(&mut self, net: &mut PeerNetwork<SharedCountMessage>) {
        (0..net.nodes).for_each(|node| net.wake_after(SUB_INTERVAL_MS, node));
    }

    fn call(&mut self, net: &mut PeerNetwork<SharedCountMessage>, call: ArrivedCall) {
        let is_admitted = self.0.rings.admit(call.node, call.caller, net.now());
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, net: &mut PeerNetwork<SharedCountMessage>, to: Side, message: SharedCountMessage) {
        match (to, message) {
            (Side::Store, SharedCountMessage::Add(caller, at, units)) => self.0.add(caller, at, units),
            (Side::Store, SharedCountMessage::Read(node, caller, at)) => self.0.read(net, node, caller, at),
            (Side::Node(node), SharedCountMessage::Count(caller, at, units)) => {
                self.0.replace(node, caller, at, units);
            }
            _ => {}
        }
    }

    fn wake(&mut self, net: &mut PeerNetwork<SharedCountMessage>, node: usize) {
        let (at, is_end) = (self.0.before(net.now()), net.now().as_ms().is_multiple_of(SUB_INTERVAL_MS));
        for caller in 0..self.0.callers {
            let units = self.0.own(node, caller, at);
            if !is_end {
                net.ask(SharedCountMessage::Read(node, caller, at));
            } else if units > 0 {
                net.ask(SharedCountMessage::Add(caller, at, units));
            }
        }
        net.wake_after(if is_end { WAIT_MS } else { SUB_INTERVAL_MS - WAIT_MS }, node);
    }

    fn bytes(&self) -> CounterBytes {
        SharedCounts::bytes()
    }
}
