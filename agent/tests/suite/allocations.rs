//! Allocations of a call, counted on the thread that calls.

use std::sync::Arc;

use futures_util::FutureExt;
use tollgate::{Agent, Call, Rule};
use tollgate_bus::embedded::EmbeddedBus;
use tollgate_core::clock::SystemClock;

const CALLERS: usize = 1_000;
const CALLS: u32 = 20_000;

/// A row costs no memory of its own, with a bus and metrics: only the buffers grow to their length now and then.
#[tokio::test]
async fn a_call_of_a_known_caller_allocates_nothing() {
    let bus = EmbeddedBus::new(Arc::new(SystemClock::start()), 4);
    let rule = || Rule::per("per-key", &["api_key"], "10/min".parse().unwrap());
    let builder = || Agent::builder().rule(rule());
    for (name, agent) in [("memory", builder().start().unwrap()), ("bus", builder().bus(bus).start().unwrap())] {
        let keys: Vec<_> = (0..CALLERS).map(|caller| format!("caller-{caller}")).collect();
        let call = |key: &String| agent.check(&Call::new().with("api_key", key.as_str())).now_or_never();
        assert!(keys.iter().all(|key| call(key).is_some()), "an own table is never waited for");
        let allocations = allocation_counter::measure(|| {
            for key in keys.iter().cycle().take(CALLS as usize) {
                call(key);
            }
        });
        assert!(
            allocations.count_total < u64::from(CALLS / 100),
            "{name}: {} in {CALLS} calls",
            allocations.count_total
        );
    }
}
