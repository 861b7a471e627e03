//! The way of a batch: agent, bus, aggregator, and back to the agents as signals. And heartbeats.

use tollgate_bus::DeliveryReport;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::SignalBatch;
use tollgate_engine::{ExchangeEffect, ExchangeInput};
use tollgate_wire::Record;

use super::event::Event;
use super::{Delay, LOG, TICK_MS, World};

/// How long calls wait for the writer where nobody waits for signals, and how many of them.
const LAZY_WAKE_MS: u64 = 60_000;
const LAZY_CALLS_MAX: u32 = 2_000;

impl World<'_> {
    /// Without heartbeats an agent's writer wakes when there is much to hand over, or after a while.
    pub(super) fn wake_soon(&mut self, agent: usize) {
        match self.agents[agent].waits_with() {
            1 => self.after(LAZY_WAKE_MS, Event::Wake { agent }),
            LAZY_CALLS_MAX => self.wake(agent),
            _ => {}
        }
    }

    /// An agent's writer hands over what is due, and shows the agent.
    pub(super) fn wake(&mut self, agent: usize) {
        self.agents[agent].woke();
        self.exchange(agent, ExchangeInput::Tick);
        if self.settings.heartbeats {
            self.after(TICK_MS / 4, Event::Wake { agent });
        }
    }

    /// An agent's writer hears of something.
    pub(super) fn exchange(&mut self, agent: usize, input: ExchangeInput) {
        let (_, own_now) = self.agents[agent].at(self.now());
        let (mut inputs, mut effects) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            self.agents[agent].exchange.poll(own_now, input, &mut effects);
            for effect in effects.drain(..) {
                match effect {
                    ExchangeEffect::Append(batch) => {
                        inputs.push(ExchangeInput::Accepted { partition: batch.name.partition });
                        self.hand_over(agent, batch);
                    }
                    ExchangeEffect::Announce(presence) => self.show(&presence),
                }
            }
        }
    }

    fn hand_over(&mut self, agent: usize, batch: Batch) {
        match self.settings.network.way_to_bus() {
            Delay::After(ms) => self.after(ms, Event::Append { agent, batch }),
            Delay::Twice(first, second) => {
                self.after(first, Event::Append { agent, batch: batch.clone() });
                self.after(second, Event::Append { agent, batch });
            }
            Delay::Lost => {
                let report = DeliveryReport { partition: batch.name.partition, tag: batch.name.sequence, offset: None };
                self.after(5, Event::Report { agent, report });
            }
        }
    }

    fn show(&mut self, presence: &Presence) {
        if !self.settings.heartbeats {
            return;
        }
        let payload = presence.encode();
        for agent in 0..self.agents.len() {
            if let Delay::After(ms) | Delay::Twice(ms, _) = self.settings.network.way_to_agent() {
                self.after(ms, Event::Meet { agent, payload: payload.clone() });
            }
        }
    }

    pub(super) fn append(&mut self, agent: usize, batch: &Batch) {
        let (partition, sequence) = (batch.name.partition, batch.name.sequence);
        let payload = batch.encode();
        let offset = self.bus.append(partition, self.now(), payload);
        let report = DeliveryReport { partition, tag: sequence, offset: Some(offset) };
        let back = self.settings.network.way_from_store();
        self.after(back, Event::Report { agent, report });
        let soon = self.settings.network.way_to_aggregator();
        self.after(soon, Event::Count { partition, again: false });
    }

    /// The aggregator reads what is new in a partition and says what changed.
    pub(super) fn count(&mut self, partition: Partition) {
        let now = self.now();
        let counting = &mut self.counts[partition as usize];
        for (offset, record) in self.bus.from(partition, counting.read().map_or(0, |(offset, _)| offset + 1)) {
            let appended = record.appended;
            match Batch::decode(&record.payload) {
                Ok(mut batch) => {
                    self.planted.corrupt(offset, &mut batch);
                    counting.count(offset, appended, &batch);
                }
                Err(_) => drop(counting.skip(offset, appended)),
            }
        }
        let due = counting.signals_due(now, self.settings.threshold_permille);
        let due =
            due.zip(counting.read()).map(|((signals, threshold_permille), (as_of, as_of_appended))| SignalBatch {
                aggregator: "aggregator".into(),
                partition,
                log: LOG,
                as_of,
                as_of_appended,
                threshold_permille,
                signals,
            });
        if !self.settings.heartbeats {
            // Years may pass; nobody comes back to read them.
            self.bus.forget(partition);
        }
        if let Some(batch) = due {
            let (appended, payload) = (now, batch.encode());
            for agent in 0..self.agents.len() {
                if let Delay::After(ms) | Delay::Twice(ms, _) = self.settings.network.way_to_agent() {
                    self.after(ms, Event::Hear { agent, appended, payload: payload.clone() });
                }
            }
        }
    }
}
