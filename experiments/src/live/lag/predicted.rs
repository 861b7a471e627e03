//! The simulation's prediction: the same calls at simulated agents, whose servers are as near as those of one machine.

use std::sync::Arc;

use tollgate::Call;
use tollgate_bus::Topic;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation};
use tollgate_wire::Record;

use super::calls::Calls;
use super::plan::{DESCRIPTOR, LagPlan, THRESHOLD_PERMILLE};
use super::rules::rules;
use super::signal_listener::SignalListener;
use crate::live::simulated;

/// Maximum delay between any node and Redis or Kafka, one way, and interval at which an agent polls Kafka, in ms.
pub(super) const NETWORK_MS_MAX: u64 = 1;
/// Seed of the delays.
pub(super) const SEED: u64 = 1;
/// Longest measurement and warm-up that are simulated, in seconds.
const SECONDS_MAX: u32 = 10;
const WARM_UP_SECONDS_MAX: u32 = 1;
/// Time in which every call is signalled, in ms.
const SIGNALLED_MS: u64 = 1_000;
/// Beginning of the calls, in simulated time.
const BEGIN: Timestamp = Timestamp::from_ms(1_700_000_040_000);

/// Makes the calls of a plan, and returns them with their instants.
pub(super) fn calls(plan: LagPlan, partitions: u32) -> Calls {
    let seconds = plan.seconds.min(SECONDS_MAX);
    let plan = LagPlan { seconds, warm_up_seconds: plan.warm_up_seconds.min(WARM_UP_SECONDS_MAX), ..plan };
    let calls = Arc::new(Calls::new(&plan, BEGIN));
    let network = Faults {
        store_ms_max: NETWORK_MS_MAX,
        bus_ms_max: NETWORK_MS_MAX,
        ack_ms_max: NETWORK_MS_MAX,
        ..Faults::default()
    };
    let settings = SimSettings {
        faults: network,
        partitions,
        read_ms: NETWORK_MS_MAX,
        is_prompt: true,
        threshold_permille: THRESHOLD_PERMILLE,
        ..simulated::fleet(BEGIN, plan.agents.get() as usize, SEED)
    };
    let mut sim = Simulation::new(settings, &rules(&calls));
    sim.run_until(BEGIN);
    sim.observations();
    let mut listeners: Vec<_> = (0..plan.agents.get()).map(|agent| SignalListener::new(agent, calls.clone())).collect();
    // Number of the next answer of each key.
    let mut answered: Vec<u64> = (0..calls.keys).map(u64::from).collect();
    let mut run_until = |sim: &mut Simulation<'_>, until: Timestamp| {
        while sim.step_until(until) {
            let now_us = calls.us_at(sim.now());
            let mut read = Vec::new();
            for observation in sim.observations() {
                match observation {
                    Observation::Answered(answer) => {
                        let number = &mut answered[key_of(&answer.call)];
                        calls.decided(*number, now_us);
                        *number += u64::from(calls.keys);
                    }
                    Observation::SignalsRead(agent, partition, offset) => read.push((agent, partition, offset)),
                    _ => {}
                }
            }
            for (agent, partition, offset) in read {
                let place = usize::try_from(offset).expect("a short log");
                let record = &sim.bus().records(Topic::Signals, partition)[place];
                let batch = SignalBatch::decode(&record.payload).expect("an aggregator wrote it");
                listeners[agent].receive(&batch, record.appended, now_us);
            }
        }
    };
    for (number, key) in (0..calls.len()).zip((0..calls.keys).cycle()) {
        let due_ms = u64::try_from(calls.due(number).as_millis()).expect("a short time");
        run_until(&mut sim, BEGIN.plus_ms(due_ms));
        sim.check(calls.agent_of(key) as usize, vec![Call::new().with(DESCRIPTOR, Calls::name(key))]);
    }
    let end = sim.now().plus_ms(SIGNALLED_MS);
    run_until(&mut sim, end);
    drop(listeners);
    Arc::into_inner(calls).expect("nobody else has the calls")
}

fn key_of(call: &Call<'_>) -> usize {
    let key = call.get(DESCRIPTOR).and_then(|name| name.rsplit('-').next()?.parse().ok());
    key.expect("a call has a key")
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::super::call_lags::CallLags;
    use super::*;

    /// N6.
    #[test]
    fn every_call_is_known_to_all_agents_within_the_aim() {
        let agents = NonZeroU32::new(3).unwrap();
        let plan = LagPlan { agents, rate: NonZeroU32::new(2_000).unwrap(), seconds: 2, warm_up_seconds: 1 };
        let calls = calls(plan, 2);
        assert!(calls.are_all_known());
        let CallLags { another, slowest, .. } = CallLags::of(&calls);
        let (p50, p99) = (another.quantiles.p50_ms.unwrap(), another.quantiles.p99_ms.unwrap());
        assert!(p50 > 1.0 && p99 > p50 && p99 < 20.0, "{another:?}");
        assert!(slowest.never == 0 && slowest.quantiles.p99_ms.unwrap() >= p99, "{slowest:?}");
    }
}
