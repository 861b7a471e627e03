//! Kong's plugin rate-limiting with the policy `local`: each node counts a fixed window of its own calls.
//!
//! Source: the plugin's documentation. Counters are kept in the memory of the node, and are not shared.

use tollgate_core::rules::Quota;

use super::counts::{FIXED_BYTES, FixedCount};
use crate::scenario::ways::network::{CounterBytes, Limiter, PeerNetwork, Trial};
use crate::scenario::ways::workload::ArrivedCall;

pub(super) struct Kong {
    quota: Quota,
    counts: Vec<Vec<FixedCount>>,
}

impl Kong {
    pub(super) fn new(trial: &Trial) -> Self {
        Self { quota: trial.quota, counts: vec![vec![FixedCount::default(); trial.callers]; trial.nodes] }
    }
}

impl Limiter for Kong {
    type Message = ();

    fn call(&mut self, net: &mut PeerNetwork<()>, call: ArrivedCall) {
        let units = self.counts[call.node][call.caller].units(net.now(), self.quota);
        let is_admitted = *units < self.quota.units();
        *units += u64::from(is_admitted);
        net.answer(call, is_admitted);
    }

    fn bytes(&self) -> CounterBytes {
        CounterBytes { node: FIXED_BYTES, store: 0 }
    }
}
