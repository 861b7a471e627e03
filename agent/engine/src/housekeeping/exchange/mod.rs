//! The outgoing half of the agent's exchange with the bus, as a state machine: batches of calls, delivery reports, presence.
//!
//! [`Exchange::poll`] takes an input and returns effects; a shell (`agent/src/runtime/bus_threads.rs`, or the simulator)
//! executes the effects and reports the results as inputs. A batch is sent once the previous ones are acknowledged, or after
//! 100 ms. One batch per partition is handed over at a time, and the next one follows its acceptance, so a batch that the
//! bus has no room for is never overtaken. The rows of a round are collected from the calls' threads
//! (`bus/row_buffer`) and become batches in `bus/batcher`. Records that arrive are not part of this state machine:
//! a thread of its own hands them to [`Engine::receive`], which needs no state beside the engine's.

mod presence;
#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod tests;

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::in_flight::InFlight;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::Offset;

use crate::bus::{BatchRounds, Batcher, ClosedBatch, LINGER_MS, RowCollector};
use crate::engine::Engine;
use crate::engine_settings::EngineSettings;
use crate::report::STRIPES;

/// Bounds of the interval at which a shell that must poll fetches delivery reports, in ms.
const REPORTS_INTERVAL_MS_MAX: u64 = 100;
const NEVER: Timestamp = Timestamp::from_ms(u64::MAX);

/// Event that the exchange reacts to.
#[derive(Debug)]
pub enum ExchangeInput {
    /// Time has passed: [`Exchange::wake_at`] is reached.
    Tick,
    /// The bus took the batch of an [`ExchangeEffect::Append`]. To be reported at once.
    Accepted {
        /// Partition of the batch.
        partition: Partition,
    },
    /// The bus has no room for the batch of an [`ExchangeEffect::Append`]. To be reported at once.
    Refused(Batch),
    /// The bus has no room for the record of an [`ExchangeEffect::Announce`]. To be reported at once.
    Unannounced,
    /// An accepted batch is in the log, or lost.
    Delivered {
        /// Partition of the batch.
        partition: Partition,
        /// Number of the batch.
        sequence: u64,
        /// Offset in the log, or nothing if the batch is lost.
        offset: Option<Offset>,
    },
    /// The agent stops: everything that is left goes out, and no round follows; later rows are dropped and counted. To be
    /// repeated once the bus had time to make room: batches that were refused go out again, and those that are refused then
    /// are lost.
    Stop,
}

/// Work for the shell.
#[derive(Debug)]
pub enum ExchangeEffect {
    /// Append this record to `calls`; the answer is [`ExchangeInput::Accepted`] or [`ExchangeInput::Refused`].
    Append(Batch),
    /// Append this record to `presence`; if it finds no room, the answer is [`ExchangeInput::Unannounced`], and the next one
    /// follows soon. Without heartbeats, the others take the agent for gone.
    Announce(Presence),
}

/// Outgoing half of the exchange with the bus.
pub struct Exchange {
    engine: Arc<Engine>,
    shell: Option<Waker>,
    batcher: Batcher,
    collector: RowCollector,
    collecting: Option<Round>,
    stripes_per_tick: usize,
    /// Numbers of rows and rounds, by the partitions and sequences of their batches.
    in_flight: InFlight<(Partition, u64), (usize, BatchRounds)>,
    /// Time of another look at the rows after some were taken, because the rows that came next may not have been seen.
    look_again_at: Timestamp,
    announce_at: Timestamp,
    /// True if the last announcement said that the store is down.
    announced_degraded: bool,
    stopped: bool,
    /// True once a batch that is refused will not be sent again.
    drops_refused: bool,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    number: u64,
    /// Time before which no row of a later round lies.
    complete_through: Timestamp,
    next_stripe: usize,
}

impl Exchange {
    /// Creates the exchange of an agent.
    #[must_use]
    pub fn new(engine: Arc<Engine>) -> Self {
        let EngineSettings { node, region, epoch, partitions, digest_key, .. } = &*engine.settings;
        Self {
            batcher: Batcher::new(digest_key, node, region, epoch.as_ms(), *partitions),
            engine,
            shell: None,
            collector: RowCollector::default(),
            collecting: None,
            stripes_per_tick: STRIPES,
            in_flight: InFlight::default(),
            look_again_at: NEVER,
            announce_at: Timestamp::default(),
            announced_degraded: false,
            stopped: false,
            drops_refused: false,
        }
    }

    /// Lets each tick collect the rows of so many stripes, as if calls ran between them. A simulation of several threads.
    #[doc(hidden)]
    pub fn collect_per_tick(&mut self, stripes: usize) {
        self.stripes_per_tick = stripes.max(1);
    }

    /// Sets the waker of a shell that sleeps until [`Exchange::wake_at`]. It is woken when the first row comes earlier,
    /// and when many wait.
    pub fn set_waker(&mut self, waker: Waker) {
        self.shell = Some(waker);
    }

    /// Applies an input and appends the effects that follow from it.
    pub fn poll(&mut self, now: Timestamp, input: ExchangeInput, effects: &mut Vec<ExchangeEffect>) {
        match input {
            ExchangeInput::Tick if self.stopped => {}
            ExchangeInput::Tick => {
                if self.look_again_at <= now {
                    self.look_again_at = NEVER;
                }
                let is_due = self.in_flight.may_send(now) && self.batches_at() <= now;
                if self.collecting.is_some() || is_due || self.engine.bus.rows().is_any_full() {
                    self.collect(now, self.stripes_per_tick, effects);
                }
                self.announce_if_due(now, effects);
            }
            ExchangeInput::Accepted { partition } => self.append_next(partition, effects),
            ExchangeInput::Unannounced => self.announce_again(now),
            ExchangeInput::Refused(batch) => {
                let (partition, sequence, rows) = (batch.name.partition, batch.name.sequence, batch.rows.len());
                let Some((_, rounds)) = self.in_flight.refuse((partition, sequence)) else { return };
                if self.drops_refused || !self.batcher.put_back(ClosedBatch { batch, rounds }) {
                    self.delivered(partition, rounds, None, rows);
                    self.append_next(partition, effects);
                }
            }
            ExchangeInput::Delivered { partition, sequence, offset } => {
                if let Some((rows, rounds)) = self.in_flight.remove((partition, sequence)) {
                    self.delivered(partition, rounds, offset, rows);
                }
            }
            ExchangeInput::Stop => {
                self.drops_refused = self.stopped;
                self.stopped = true;
                self.collecting = None;
                self.engine.bus.rows().close();
                self.collect(now, STRIPES, effects);
                self.engine.bus.rows().free_closed();
                effects.push(ExchangeEffect::Announce(self.presence(now)));
            }
        }
        self.engine.bus.rows().note_batches(self.batcher.waiting_batches(), self.batcher.open_rows());
    }

    /// Returns the time of the next tick, if no other input comes earlier, and arms the waker.
    ///
    /// Rows that calls add can bring it forward: a shell without a waker asks again after each operation.
    #[must_use]
    pub fn wake_at(&self, now: Timestamp) -> Timestamp {
        let rows = self.engine.bus.rows();
        rows.expect_first();
        // Before another look at the work: either it is seen here, or the operation that makes it wakes the shell.
        self.shell.iter().for_each(|shell| rows.wake_when_full(shell));
        let wake_at = self.due_at();
        if self.stopped || wake_at.ms_since(now) <= LINGER_MS {
            return wake_at.max(now.plus_ms(1));
        }
        self.shell.iter().for_each(|shell| rows.wake_at_first(shell));
        self.due_at().max(now.plus_ms(1))
    }

    /// Returns the time at which to fetch delivery reports, for a shell that must poll for them; nothing while no batch
    /// is in flight. The interval is a quarter of the time waited already.
    #[must_use]
    pub fn reports_at(&self, now: Timestamp) -> Option<Timestamp> {
        let since = self.in_flight.waits_since()?;
        // Only batches that are due wait for reports.
        let shortest_ms = if self.batches_at() <= now { 1 } else { LINGER_MS };
        Some(now.plus_ms((now.ms_since(since) / 4).clamp(shortest_ms, REPORTS_INTERVAL_MS_MAX)))
    }

    fn due_at(&self) -> Timestamp {
        if self.stopped {
            return NEVER;
        }
        if self.collecting.is_some() || self.engine.bus.rows().is_any_full() {
            return Timestamp::default();
        }
        self.batches_at().max(self.in_flight.may_send_at()).min(self.announce_at).min(self.look_again_at)
    }

    fn batches_at(&self) -> Timestamp {
        let batches_at = self.batcher.due_at();
        self.engine.bus.rows().due_at().map_or(batches_at, |rows_at| rows_at.min(batches_at))
    }

    /// Collects the rows of so many stripes, in a new round if none is begun. Once the round has those of all stripes,
    /// batches are closed and handed over, if the bus is ready for more.
    fn collect(&mut self, now: Timestamp, stripes: usize, effects: &mut Vec<ExchangeEffect>) {
        let engine = &self.engine;
        let batcher = &mut self.batcher;
        let round = self.collecting.get_or_insert_with(|| {
            batcher.begin_round(engine.bus.rows().due_at().unwrap_or(now));
            let complete_through = engine.complete_through(now);
            Round { number: engine.bus.rows().begin_round(), complete_through, next_stripe: 0 }
        });
        let mut refused = Vec::new();
        let end = STRIPES.min(round.next_stripe + stripes);
        for stripe in mem::replace(&mut round.next_stripe, end)..end {
            let add = |buffer: &_, subject: &_, row, batched: &mut _| {
                refused.extend(batcher.add(round.number, buffer, subject, row, batched).err());
            };
            if self.collector.collect(engine.bus.rows(), stripe, add) > 0 {
                self.look_again_at = now.plus_ms(LINGER_MS);
            }
        }
        let Round { number, complete_through, next_stripe } = *round;
        let rounds = BatchRounds { through: number, first: number, last: number + 1 };
        for partition in refused {
            self.delivered(partition, rounds, None, 1);
        }
        if next_stripe < STRIPES {
            return;
        }
        self.collecting = None;
        // Rows that were taken to make room in their ring wait here for further ones.
        if self.stopped || self.in_flight.may_send(now) && self.batcher.due_at() <= now {
            self.batcher.close(now, number, complete_through, self.stopped);
            self.in_flight.begin_round(now);
            for partition in 0..self.engine.settings.partitions {
                self.append_next(partition, effects);
            }
        }
    }

    fn append_next(&mut self, partition: Partition, effects: &mut Vec<ExchangeEffect>) {
        let Some(ClosedBatch { batch, rounds }) = self.batcher.take_waiting(partition) else { return };
        let given_up = self.in_flight.add((partition, batch.name.sequence), (batch.rows.len(), rounds));
        if let Some(((partition, _), (rows, rounds))) = given_up {
            self.delivered(partition, rounds, None, rows);
        }
        effects.push(ExchangeEffect::Append(batch));
    }

    /// Records the offset of a batch, or that it is lost.
    fn delivered(&self, partition: Partition, rounds: BatchRounds, offset: Option<Offset>, rows: usize) {
        if let Some(offset) = offset {
            self.engine.bus.signals().delivered(partition, rounds.through, offset);
        } else {
            self.engine.bus.rows().note_dropped(rows as u64);
            self.engine.bus.signals().lost(partition, rounds.first..=rounds.last);
        }
    }
}

impl Engine {
    /// Returns a time before which no later row lies: a request that is sent now is decided within the longest deadline.
    fn complete_through(&self, now: Timestamp) -> Timestamp {
        let active = self.rules.load();
        let deadlines = active.set.rules.iter().flat_map(|rule| rule.all_policies()).map(|policy| policy.deadline);
        let longest = deadlines.max().unwrap_or_default();
        let in_flight_ms = u64::try_from(longest.as_millis()).unwrap_or(u64::MAX);
        self.store_time(now).earliest.minus_ms(in_flight_ms + 1)
    }
}
