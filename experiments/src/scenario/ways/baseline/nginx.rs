//! nginx `limit_req` with `nodelay`: each node drains a bucket of its own.
//!
//! Source: `ngx_http_limit_req_module`. The excess of a caller falls with the rate and rises by one with each call; a call that would
//! raise it beyond the burst is refused. The burst of 20 is that of the module's documentation.

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Trial};
use crate::scenario::ways::workload::ArrivedCall;

const BURST: f64 = 20.0;

pub(super) struct Nginx {
    quota: Quota,
    buckets: Vec<Vec<Option<Excess>>>,
}

#[derive(Clone, Copy)]
struct Excess {
    calls: f64,
    last: Timestamp,
}

impl Nginx {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, buckets: vec![vec![None; trial.callers]; trial.nodes] }
    }
}

impl Limiter for Nginx {
    type Message = ();

    #[expect(clippy::cast_precision_loss, reason = "small times and quotas")]
    fn call(&mut self, net: &mut PeerNetwork<()>, call: ArrivedCall) {
        let (now, bucket) = (net.now(), &mut self.buckets[call.node][call.caller]);
        let calls = bucket.map_or(0.0, |excess| {
            let drained = now.ms_since(excess.last) as f64 * self.quota.units() as f64 / self.quota.width_ms() as f64;
            (excess.calls - drained + 1.0).max(0.0)
        });
        let is_admitted = calls <= BURST;
        if is_admitted {
            *bucket = Some(Excess { calls, last: now });
        }
        net.answer(call, is_admitted);
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: 16, store: 0 }
    }
}
