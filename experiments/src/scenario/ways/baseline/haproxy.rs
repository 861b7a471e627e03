//! `HAProxy` stick tables with peers: each node counts all calls, denied ones as well, and pushes its entry to all others.
//!
//! Source: `HAProxy`'s configuration manual, section "Peers": "The pushed values overwrite the remote ones without aggregation". The
//! entry is `http_req_rate`: the calls of the current period, and those of the previous one by the part of it that is still inside.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct HaproxyPeers {
    quota: Quota,
    entries: Vec<Vec<RateEntry>>,
}

/// An entry of a stick table.
#[derive(Clone, Copy, Default)]
pub(super) struct RateEntry {
    begin: Timestamp,
    current: u64,
    previous: u64,
}

/// An entry of a caller.
#[derive(Clone, Copy)]
pub(super) struct PushedEntry {
    caller: usize,
    entry: RateEntry,
}

impl HaproxyPeers {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, entries: vec![vec![RateEntry::default(); trial.callers]; trial.nodes] }
    }
}

impl RateEntry {
    /// Counts a call, and returns the rate.
    fn count(&mut self, now: Timestamp, period_ms: u64) -> u64 {
        let passed_ms = now.ms_since(self.begin);
        if passed_ms >= period_ms {
            let previous = if passed_ms < 2 * period_ms { self.current } else { 0 };
            let begin = if previous == 0 { now } else { self.begin.plus_ms(period_ms) };
            *self = Self { begin, current: 0, previous };
        }
        self.current += 1;
        let left_ms = period_ms - now.ms_since(self.begin).min(period_ms);
        self.current + self.previous * left_ms / period_ms
    }
}

impl Limiter for HaproxyPeers {
    type Message = PushedEntry;

    fn call(&mut self, net: &mut PeerNetwork<PushedEntry>, call: ArrivedCall) {
        let entry = &mut self.entries[call.node][call.caller];
        let is_admitted = entry.count(net.now(), self.quota.width_ms()) <= self.quota.units();
        net.send_to_all(Some(call.node), &PushedEntry { caller: call.caller, entry: *entry });
        net.answer(call, is_admitted);
    }

    fn receive(&mut self, _net: &mut PeerNetwork<PushedEntry>, to: Side, message: PushedEntry) {
        if let Side::Node(node) = to {
            self.entries[node][message.caller] = message.entry;
        }
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: 24, store: 0 }
    }
}
