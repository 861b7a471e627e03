//! Records of the topic `signals`. Rings are stored as counts, newest sub-window first.

use super::{BATCH_ROWS_LEN_MAX, VERSION, WireError, check, counter_from_wire, counter_to_wire, v1};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::calls::CounterEntry;
use tollgate_core::messages::signals::{AGENTS_LEN_MAX, AgentUnits, Signal, SignalBatch};
use tollgate_core::window::Ring;

pub(super) fn to_wire(batch: &SignalBatch) -> v1::SignalBatch {
    v1::SignalBatch {
        version: VERSION,
        aggregator: batch.aggregator.to_string(),
        partition: batch.partition,
        log: batch.log,
        as_of: batch.as_of,
        as_of_appended_ms: batch.as_of_appended.as_ms(),
        threshold_permille: batch.threshold_permille,
        signals: batch.signals.iter().map(signal_to_wire).collect(),
        agents: batch.agents.iter().map(ToString::to_string).collect(),
    }
}

pub(super) fn from_wire(wire: v1::SignalBatch) -> Result<SignalBatch, WireError> {
    check(wire.signals.len() <= BATCH_ROWS_LEN_MAX, "the batch exceeds the maximum number of signals")?;
    let agents = wire.agents.len();
    check(agents <= BATCH_ROWS_LEN_MAX, "the batch exceeds the maximum number of agents")?;
    Ok(SignalBatch {
        aggregator: wire.aggregator.into(),
        partition: wire.partition,
        log: wire.log,
        as_of: wire.as_of,
        as_of_appended: Timestamp::from_ms(wire.as_of_appended_ms),
        threshold_permille: wire.threshold_permille,
        agents: wire.agents.into_iter().map(Into::into).collect(),
        signals: wire.signals.into_iter().map(|signal| signal_from_wire(signal, agents)).collect::<Result<_, _>>()?,
    })
}

fn signal_to_wire(signal: &Signal) -> v1::Signal {
    let newest = signal.admitted.newest();
    let slots = u64::from(signal.admitted.window().sub_windows()) + 1;
    let counts = (0..slots).filter_map(|back| newest.checked_sub(back)).map(|index| signal.admitted.get(index));
    v1::Signal {
        counter: Some(counter_to_wire(&CounterEntry {
            id: signal.counter,
            rule: signal.rule.clone(),
            label: signal.label.clone(),
            generation: signal.generation,
            quota: signal.quota,
            window: signal.admitted.window(),
        })),
        newest_sub_window: newest,
        admitted: counts.collect(),
        denied: signal.denied,
        rate_milli: signal.rate_milli,
        budget: signal.budget,
        newest_at_ms: signal.newest_at.as_ms(),
        charged_at_ms: signal.charged_at.as_ms(),
        agent: signal.by_agent.iter().map(|by_agent| by_agent.agent).collect(),
        agent_units: signal.by_agent.iter().map(|by_agent| by_agent.units).collect(),
        other_units: signal.by_others,
    }
}

/// Decodes a signal of a batch that names so many agents.
fn signal_from_wire(wire: v1::Signal, agents: usize) -> Result<Signal, WireError> {
    let counter = counter_from_wire(wire.counter.ok_or(WireError::Invalid("a signal lacks its counter"))?, None)?;
    check(
        wire.admitted.len() <= counter.window.sub_windows() as usize + 1,
        "a ring has more counts than its window has sub-windows",
    )?;
    check(
        wire.agent.len() == wire.agent_units.len() && wire.agent.len() <= AGENTS_LEN_MAX,
        "a signal names too many agents, or not the units of each",
    )?;
    check(wire.agent.iter().all(|agent| (*agent as usize) < agents), "a signal names an unknown agent")?;
    let by_agent = wire.agent.into_iter().zip(wire.agent_units);
    let mut admitted = Ring::new(counter.window);
    admitted.add(wire.newest_sub_window, 0);
    for (back, units) in (0_u64..).zip(wire.admitted) {
        let index =
            wire.newest_sub_window.checked_sub(back).ok_or(WireError::Invalid("a ring begins before the epoch"))?;
        admitted.add(index, units);
    }
    Ok(Signal {
        counter: counter.id,
        rule: counter.rule,
        label: counter.label,
        generation: counter.generation,
        quota: counter.quota,
        admitted,
        by_agent: by_agent.map(|(agent, units)| AgentUnits { agent, units }).collect(),
        by_others: wire.other_units,
        denied: wire.denied,
        rate_milli: wire.rate_milli,
        budget: wire.budget,
        newest_at: Timestamp::from_ms(wire.newest_at_ms),
        charged_at: Timestamp::from_ms(wire.charged_at_ms),
    })
}
