//! The arrivals of a real access log: the gaps between its calls, and their callers.

use std::collections::HashMap;
use std::sync::LazyLock;

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_sim::replay::ReplayInput;

const LOG: &[u8] = include_bytes!("../../../../traces/apache_combined_10k.log.gz");

/// Calls of the log, in their order.
pub(crate) static ARRIVALS: LazyLock<Vec<Arrival>> = LazyLock::new(|| {
    let input = ReplayInput::of_bytes("apache_combined_10k.log.gz", LOG, &RuleSet::default());
    let (mut callers, mut last_ms) = (HashMap::new(), None);
    let arrival = |(at, call): (Timestamp, Call<'_>)| {
        let next = callers.len();
        let caller = *callers.entry(call.get("ip").unwrap_or_default().to_owned()).or_insert(next);
        let gap_ms = at.as_ms() - last_ms.replace(at.as_ms()).unwrap_or(at.as_ms());
        Arrival { gap_ms, caller }
    };
    input.recording.calls().map(arrival).collect()
});

#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// Time since the call before it, in ms. The log has whole seconds.
    pub(crate) gap_ms: u64,
    /// Number of addresses that called before this one.
    pub(crate) caller: usize,
}
