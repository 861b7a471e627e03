//! The worker: the one state machine of an aggregator, from records of `calls` to signals.
//!
//! It owns all distributed behaviour, so that a simulation exercises exactly what runs in production: which partitions
//! to count (`rebalance`), the restore and hand-over of each (`partition`), and the pace of signals. It does no I/O and
//! reads no clock; [`crate::counting`] and [`crate::membership`] are its parts.
//!
//! Signals are published once the previous ones are acknowledged, or after 100 ms. When the bus is slow, each batch
//! therefore holds more signals and there are fewer of them: each is a request to the bus and one more fetch of every
//! agent. The signals of a batch that is lost, or that finds no room, are produced anew with the newest counts.
//!
//! A shell drives it in rounds. In each round it reads records for at most [`Worker::wait_ms`], passes them on, then
//! the delivery reports, the reading positions of [`Worker::restoring`], the records of `presence`, and a tick. It
//! executes the effects of each [`Worker::poll`] in order, before the next one where it can. Each
//! [`WorkerEffect::FindLogEnd`] is answered exactly once, and a batch that finds no room is reported as lost before the
//! next tick. A worker starts empty: after a crash, a new one restores the counts from the log.

mod settings;
mod inputs;
mod effects;
mod partition;
mod rebalance;
mod completeness;
mod published_rollups;
mod rollups;
mod agents;
mod facts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{CounterId, Partition};
use tollgate_core::in_flight::InFlight;
use tollgate_core::log_throttle::LogThrottle;
use tollgate_core::messages::Topic;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::{Presence, Role};

use crate::counting::WantedThreshold;
use crate::membership::{GONE_AFTER_MS, HEARTBEAT_MS, Membership};

use published_rollups::PublishedRollups;

pub use agents::{AgentState, Agents};
pub use effects::{DeadLetter, WorkerEffect, WorkerNotice};
pub use inputs::WorkerInput;
pub use partition::AssignedPartition;
pub use settings::{THRESHOLD_PERMILLE_DEFAULT, WorkerSettings};

/// Maximum time between two ticks, in ms; signals that are due by time leave with a tick.
const WAIT_MS: u64 = 20;
/// Maximum time between two ticks while counted records wait for their signals, in ms.
const WAIT_UNPUBLISHED_MS: u64 = 1;
/// An aggregator's state.
#[derive(Clone, Debug)]
pub struct Worker {
    settings: WorkerSettings,
    /// The number of partitions of `calls`.
    partitions: u32,
    /// The live aggregators; nothing for one that shares with nobody.
    membership: Option<Membership>,
    assigned: BTreeMap<Partition, AssignedPartition>,
    /// Partitions to assign, whose log ends were asked for.
    assigning: BTreeSet<Partition>,
    /// Assigned partitions whose log ends are to be compared with the reading position.
    to_measure: Vec<Partition>,
    measured_at: Timestamp,
    /// The partition with which the next rebalance begins.
    turn: Partition,
    /// The batches that were published and not reported on, by their tags.
    in_flight: InFlight<u64, SentSignals>,
    /// True if the bus has lost or refused the batch that was reported on last.
    loses_signals: bool,
    last_tag: u64,
    /// True if records were counted since signals were published.
    unpublished: bool,
    announced_at: Timestamp,
    /// Time from which on announcements name partitions.
    claims_from: Timestamp,
    members_noticed: usize,
    /// The time of the last heartbeat of an agent to which the store is down.
    store_down_at: Option<Timestamp>,
    /// Dead letters of `presence`.
    dead_letters: LogThrottle,
    published_rollups: PublishedRollups,
    agents: Agents,
}

#[derive(Clone, Debug, Default)]
struct SentSignals {
    at: Timestamp,
    partition: Partition,
    counters: Vec<CounterId>,
}

impl Worker {
    /// Returns a worker to which no partition is assigned yet; `calls` has `partitions` partitions.
    #[must_use]
    pub fn new(settings: WorkerSettings, partitions: u32) -> Self {
        let own = (settings.id.clone(), settings.epoch.as_ms());
        Self {
            partitions: partitions.max(1),
            membership: settings.shares.then(|| Membership::new(own)),
            assigned: BTreeMap::new(),
            assigning: BTreeSet::new(),
            to_measure: Vec::new(),
            measured_at: Timestamp::default(),
            turn: 0,
            in_flight: InFlight::default(),
            loses_signals: false,
            last_tag: 0,
            unpublished: false,
            announced_at: Timestamp::default(),
            claims_from: Timestamp::default(),
            members_noticed: 1,
            store_down_at: None,
            dead_letters: LogThrottle::default(),
            published_rollups: PublishedRollups::default(),
            agents: Agents::default(),
            settings,
        }
    }

    /// Takes one input and appends its effects.
    pub fn poll(&mut self, now: Timestamp, input: WorkerInput<'_>, effects: &mut Vec<WorkerEffect>) {
        match input {
            WorkerInput::Record { partition, offset, appended, batch } => {
                let others = self.assigned.iter().filter(|(other, _)| **other != partition);
                let held: usize = others.map(|(_, assigned)| assigned.counting.counters_len()).sum();
                let Some(assigned) = self.assigned.get_mut(&partition) else { return };
                self.unpublished = true;
                assigned.counting.set_counters_max(self.settings.counters_max.saturating_sub(held));
                let absurdity = |batch: &&Batch| assigned.counting.absurdity(partition, appended, batch);
                match batch.and_then(|batch| absurdity(&batch).map_or(Ok(batch), Err)) {
                    Ok(batch) => assigned.counting.count(offset, appended, batch),
                    Err(reason) => {
                        let letter = DeadLetter { topic: Topic::Calls, partition, offset, appended, reason };
                        effects.extend(assigned.skip(now, letter));
                    }
                }
            }
            WorkerInput::Presence { presence, offset, appended } => {
                if presence.as_ref().is_ok_and(|it| it.role == Role::Agent && !it.open_breakers.is_empty()) {
                    self.store_down_at = Some(now);
                }
                if let Ok(presence) = presence {
                    self.agents.apply(presence, appended);
                }
                let Some(membership) = &mut self.membership else { return };
                if let Err(reason) = presence.and_then(|presence| membership.apply(presence, appended)) {
                    let letter = DeadLetter { topic: Topic::Presence, partition: 0, offset, appended, reason };
                    let unlogged = self.dead_letters.count(now);
                    effects.push(WorkerEffect::DeadLetter { letter, unlogged });
                }
            }
            WorkerInput::LogEnd { partition, end } => self.on_log_end(now, partition, end, effects),
            WorkerInput::Position { partition, next } => {
                if let Some(assigned) = self.assigned.get_mut(&partition) {
                    assigned.position = next;
                }
            }
            WorkerInput::Reported { tag, is_lost } => {
                self.loses_signals = is_lost;
                if let Some(SentSignals { partition, counters, .. }) = self.in_flight.remove(tag)
                    && let Some(assigned) = self.assigned.get_mut(&partition)
                {
                    assigned.counting.signals_reported(&counters, is_lost);
                }
            }
            WorkerInput::RollupsReported { tag, is_lost } => self.rollups_reported(now, tag, is_lost),
            WorkerInput::Tick => self.tick(now, effects),
            WorkerInput::Stop => {
                self.publish_signals(now, effects);
                self.announce(now, true, effects);
            }
        }
    }

    /// Returns the maximum time until the next tick, in ms. It is short while counted records wait for their signals.
    #[must_use]
    pub fn wait_ms(&self) -> u64 {
        if self.unpublished { WAIT_UNPUBLISHED_MS } else { WAIT_MS }
    }

    fn partitions_where(&self, is_wanted: impl Fn(&AssignedPartition) -> bool) -> impl Iterator<Item = Partition> {
        self.assigned().filter(move |(_, assigned)| is_wanted(assigned)).map(|(partition, _)| partition)
    }

    fn tick(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        if now.ms_since(self.announced_at) >= HEARTBEAT_MS {
            self.announce(now, false, effects);
        }
        let members = self.members();
        if members != self.members_noticed {
            self.members_noticed = members;
            effects.push(WorkerEffect::Notice(WorkerNotice::MembersChanged(members)));
        }
        self.rebalance(now, effects);
        self.measure(now, effects);
        if self.in_flight.may_send(now) {
            self.publish_signals(now, effects);
        }
        self.publish_rollups(now, effects);
    }

    /// Announces this aggregator, with the partitions that it owns and has restored.
    fn announce(&mut self, now: Timestamp, leaving: bool, effects: &mut Vec<WorkerEffect>) {
        let Some(membership) = &self.membership else { return };
        // An aggregator that was suspended may be unknown by now: it claims nothing before others have heard it for a while.
        if now.ms_since(self.announced_at) >= GONE_AFTER_MS {
            self.claims_from = now.plus_ms(GONE_AFTER_MS);
        }
        self.announced_at = now;
        let claims = !leaving && now >= self.claims_from && membership.is_known();
        let counts = |assigned: &AssignedPartition| claims && assigned.is_owned() && assigned.counting.restored;
        effects.push(WorkerEffect::Announce(Presence {
            id: self.settings.id.clone(),
            epoch: self.settings.epoch.as_ms(),
            region: self.settings.region.clone(),
            role: Role::Aggregator,
            generation: 0,
            clock: now,
            open_breakers: Vec::new(),
            dropped_rows: 0,
            leaving,
            http: self.settings.http.clone(),
            partitions: self.partitions_where(counts).collect(),
            coordinates: self.settings.coordinates,
            emergency: None,
            resets: Vec::new(),
            rules_refusal: "".into(),
            rules_published: false,
        }));
    }

    /// Publishes the signals that are due. Earlier ones that are still in flight do not delay the next ones any longer.
    fn publish_signals(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        self.in_flight.begin_round(now);
        self.unpublished = false;
        for (partition, assigned) in &mut self.assigned {
            if assigned.restore() && self.membership.is_some() {
                let counters = assigned.counting.tally().counters;
                effects.push(WorkerEffect::Notice(WorkerNotice::Restored { partition: *partition, counters }));
            }
            let threshold = WantedThreshold {
                normal_permille: self.settings.threshold_permille,
                store_down_at: self.store_down_at,
                last_tag: self.last_tag,
                oldest_unreported: self.in_flight.first().map(|(tag, _)| tag),
            };
            if let Some(batch) = assigned.signals_due(now, *partition, &self.settings, threshold) {
                self.last_tag += 1;
                let counters = batch.signals.iter().map(|signal| signal.counter).collect();
                // The counters of a batch that is given up past the cap wait for the repetition of their signals.
                self.in_flight.add(self.last_tag, SentSignals { at: now, partition: *partition, counters });
                effects.push(WorkerEffect::Publish { tag: self.last_tag, batch });
            }
        }
    }
}
