//! Token bucket in Memcached: read by `gets`, and written by `cas`, which fails if another node has written meanwhile.
//!
//! Source 000: "It's possible to implement an optimistic concurrent version of the token bucket using Memcached, but […] optimistic
//! concurrency's performance degrades under heavy load". A call that fails five times is denied. The bucket holds one quota.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Side, Trial};
use crate::scenario::ways::workload::ArrivedCall;

const TRIES_MAX: u32 = 5;

pub(super) struct Memcached {
    quota: Quota,
    buckets: Vec<VersionedBucket>,
}

#[derive(Clone, Copy)]
pub(super) struct VersionedBucket {
    version: u64,
    tokens: f64,
    last: Timestamp,
}

#[derive(Clone, Copy)]
pub(super) enum CasMessage {
    Gets(ArrivedCall, u32),
    Got(ArrivedCall, u32, VersionedBucket),
    Cas(ArrivedCall, u32, VersionedBucket),
    Stored(ArrivedCall),
    Conflict(ArrivedCall, u32),
}

impl Memcached {
    pub(super) fn new(trial: &Trial) -> Self {
        let full = VersionedBucket { version: 0, tokens: capacity(trial.quota), last: Timestamp::default() };
        Self { quota: trial.quota, buckets: vec![full; trial.callers] }
    }

    /// Returns the bucket after a call; none if it is empty.
    #[expect(clippy::cast_precision_loss, reason = "small times and quotas")]
    fn taken(&self, bucket: VersionedBucket, now: Timestamp) -> Option<VersionedBucket> {
        let refilled = now.ms_since(bucket.last) as f64 * self.quota.units() as f64 / self.quota.width_ms() as f64;
        let tokens = (bucket.tokens + refilled).min(capacity(self.quota)) - 1.0;
        (tokens >= 0.0).then_some(VersionedBucket { tokens, last: now.max(bucket.last), ..bucket })
    }
}

#[expect(clippy::cast_precision_loss, reason = "small quotas")]
fn capacity(quota: Quota) -> f64 {
    quota.units() as f64
}

impl Limiter for Memcached {
    type Message = CasMessage;

    fn call(&mut self, net: &mut PeerNetwork<CasMessage>, call: ArrivedCall) {
        net.ask(CasMessage::Gets(call, 1));
    }

    fn receive(&mut self, net: &mut PeerNetwork<CasMessage>, _to: Side, message: CasMessage) {
        match message {
            CasMessage::Gets(call, tries) => {
                net.reply(call.node, CasMessage::Got(call, tries, self.buckets[call.caller]));
            }
            CasMessage::Got(call, tries, bucket) => match self.taken(bucket, net.now()) {
                Some(taken) => net.ask(CasMessage::Cas(call, tries, taken)),
                None => net.answer(call, false),
            },
            CasMessage::Cas(call, tries, taken) => {
                let bucket = &mut self.buckets[call.caller];
                let is_stored = bucket.version == taken.version;
                if is_stored {
                    *bucket = VersionedBucket { version: taken.version + 1, ..taken };
                }
                let answer = if is_stored { CasMessage::Stored(call) } else { CasMessage::Conflict(call, tries) };
                net.reply(call.node, answer);
            }
            CasMessage::Stored(call) => net.answer(call, true),
            CasMessage::Conflict(call, TRIES_MAX) => net.answer(call, false),
            CasMessage::Conflict(call, tries) => net.ask(CasMessage::Gets(call, tries + 1)),
        }
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: 0, store: 24 }
    }
}
