//! The local layer of source 002 as written: a budget of 0.7 of the node's share and a burst of 0.3 of it, and then a sorted set in Redis.
//!
//! `LocalCounterLayer.check_and_increment`: the budget begins anew each minute, the burst refills at the rate of the share. A call that
//! finds neither asks the log of Redis, which does not know the calls that the local layers have admitted until they flush their counts,
//! each 10 s.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_sim::oracle::Oracle;

use super::counts::FixedCount;
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

const FLUSH_MS: u64 = 10_000;
/// Bytes of a member of a sorted set, by source 002.
const MEMBER_BYTES: u64 = 80;

pub(super) struct LocalBudget {
    quota: Quota,
    /// Units of a node's budget and of its burst.
    budget: u64,
    burst: f64,
    refill_per_ms: f64,
    buckets: Vec<Vec<LocalBucket>>,
    logs: Vec<Oracle>,
}

#[derive(Clone, Copy, Default)]
struct LocalBucket {
    count: FixedCount,
    tokens: f64,
    refilled: Option<Timestamp>,
    unflushed: u64,
}

#[derive(Clone, Copy)]
pub(super) enum LogMessage {
    Check(ArrivedCall),
    Answer(ArrivedCall, bool),
    Flush(usize, u64),
}

impl LocalBudget {
    #[expect(clippy::cast_precision_loss, reason = "small quotas")]
    pub(super) fn new(trial: &Trial) -> Self {
        let (units, nodes) = (trial.quota.units(), trial.nodes as u64);
        Self {
            quota: trial.quota,
            budget: units * 7 / (10 * nodes),
            burst: (units * 3 / (10 * nodes)) as f64,
            refill_per_ms: units as f64 / nodes as f64 / trial.quota.width_ms() as f64,
            buckets: vec![vec![LocalBucket::default(); trial.callers]; trial.nodes],
            logs: vec![Oracle::new(trial.quota); trial.callers],
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "short times")]
    fn is_admitted_locally(&mut self, call: ArrivedCall, now: Timestamp) -> bool {
        let bucket = &mut self.buckets[call.node][call.caller];
        let passed_ms = now.ms_since(bucket.refilled.unwrap_or(now)) as f64;
        bucket.tokens = self.burst.min(bucket.tokens + passed_ms * self.refill_per_ms);
        bucket.refilled = Some(now);
        let units = bucket.count.units(now, self.quota);
        if *units >= self.budget {
            if bucket.tokens < 1.0 {
                return false;
            }
            bucket.tokens -= 1.0;
        }
        *units += 1;
        bucket.unflushed += 1;
        true
    }
}

impl Limiter for LocalBudget {
    type Message = LogMessage;

    fn start(&mut self, net: &mut PeerNetwork<LogMessage>) {
        for node in 0..net.nodes {
            let first_ms = net.rng.u64(0..FLUSH_MS);
            net.wake_after(first_ms, node);
        }
    }

    fn call(&mut self, net: &mut PeerNetwork<LogMessage>, call: ArrivedCall) {
        if self.is_admitted_locally(call, net.now()) {
            net.answer(call, true);
        } else {
            net.ask(LogMessage::Check(call));
        }
    }

    fn receive(&mut self, net: &mut PeerNetwork<LogMessage>, _to: Side, message: LogMessage) {
        let now = net.now();
        match message {
            LogMessage::Check(call) => {
                let log = &mut self.logs[call.caller];
                let is_admitted = log.has_room(now, 1);
                if is_admitted {
                    log.admit(now, 1);
                }
                net.reply(call.node, LogMessage::Answer(call, is_admitted));
            }
            LogMessage::Answer(call, is_admitted) => net.answer(call, is_admitted),
            LogMessage::Flush(caller, units) => {
                self.logs[caller].admit(now, units);
            }
        }
    }

    fn wake(&mut self, net: &mut PeerNetwork<LogMessage>, node: usize) {
        for (caller, bucket) in self.buckets[node].iter_mut().enumerate() {
            let units = std::mem::take(&mut bucket.unflushed);
            if units > 0 {
                net.ask(LogMessage::Flush(caller, units));
            }
        }
        net.wake_after(FLUSH_MS, node);
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: 40, store: MEMBER_BYTES * self.quota.units() }
    }
}
