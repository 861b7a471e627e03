//! What an agent hears on the bus: how fresh the signals of each partition are, which of its own batches they count, and
//! who else is there.
//!
//! Pure but for its locks. Signals of single counters go on to what was seen of them; here is what holds for a whole
//! partition.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tollgate_bus::DeliveryReport;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::presence::{GONE_AFTER_MS, INTERVAL_MS, Presence, Role};
use tollgate_core::messages::signals::{LogId, Offset, SignalBatch};

use crate::enforce::{Covered, Heard, Span};

/// Signals are fresh while what they count was appended less than this ago, in ms.
const FRESH_MS: u64 = 3_000;
/// So much of the log an agent must have read before silence about a counter says something, in ms: aggregators say all
/// they have to say at least that often.
const READ_FIRST_MS: u64 = 2_000;
/// Own batches that are in the log and that no signal counts yet.
const DELIVERED_LEN_MAX: usize = 8_192;
/// Own batches that never reached the log, as long as their rows matter.
const LOST_LEN_MAX: usize = 1_024;
/// So long an agent listens before it believes that it has heard of all others.
const LISTEN_FIRST_MS: u64 = 2 * INTERVAL_MS;
/// The most agents that are told apart.
const FLEET_LEN_MAX: usize = 10_000;
/// Without a number from anywhere, so many agents are expected.
pub(crate) const FLEET_EXPECTED_DEFAULT: u32 = 10;

pub(crate) struct Inbox {
    views: Box<[Mutex<View>]>,
    expected: u32,
    members: Mutex<Members>,
    active: AtomicU32,
}

/// Who was heard of, and when.
#[derive(Default)]
struct Members {
    heard: HashMap<Arc<str>, Timestamp>,
    listening_since: Option<Timestamp>,
    /// How many the store knows of, and when it said so.
    by_store: Option<(Timestamp, u32)>,
    /// Whether the number is known from someone, not only expected.
    known: bool,
}

/// One partition of the signals.
#[derive(Default)]
struct View {
    log: Option<LogId>,
    as_of: Offset,
    as_of_appended: Timestamp,
    threshold_permille: u32,
    /// When the first and the last record of it that were read had been appended.
    read: Option<(Timestamp, Timestamp)>,
    /// Own batches in the log, in their order.
    delivered: VecDeque<(u64, Offset)>,
    covered: u64,
    lost: HashSet<u64>,
    /// Too many were lost to tell them apart: none up to here counts as covered.
    none_through: u64,
}

impl Inbox {
    pub(crate) fn new(partitions: u32, agents_expected: NonZeroU32) -> Self {
        Self {
            views: (0..partitions).map(|_| Mutex::default()).collect(),
            expected: agents_expected.get(),
            members: Mutex::default(),
            active: AtomicU32::new(agents_expected.get()),
        }
    }

    /// Takes the heartbeat in a batch of signals into account, which was appended at this time; says whether its signals are news.
    pub(crate) fn signals(&self, appended: Timestamp, batch: &SignalBatch) -> bool {
        let Some(view) = self.views.get(batch.partition as usize) else {
            return false;
        };
        let mut view = view.lock();
        view.read = Some((view.read.map_or(appended, |(first, _)| first), appended));
        if view.log.replace(batch.log).is_some_and(|log| log != batch.log) {
            // Another log, which counts nothing of what went into the old one.
            let last = view.delivered.drain(..).map(|(sequence, _)| sequence).next_back();
            view.none_through = view.none_through.max(view.covered).max(last.unwrap_or_default());
            view.as_of = 0;
        }
        if batch.as_of < view.as_of {
            return false;
        }
        view.as_of = batch.as_of;
        view.as_of_appended = view.as_of_appended.max(batch.as_of_appended);
        view.threshold_permille = batch.threshold_permille;
        while let Some((sequence, offset)) = view.delivered.front().copied() {
            if offset > batch.as_of {
                break;
            }
            view.delivered.pop_front();
            view.covered = view.covered.max(sequence);
        }
        true
    }

    /// Says where own batches lie, or that they are lost. A report's tag is the batch's sequence.
    pub(crate) fn report(&self, report: &DeliveryReport) {
        let Some(view) = self.views.get(report.partition as usize) else {
            return;
        };
        let mut view = view.lock();
        match report.offset {
            Some(offset) if view.delivered.len() < DELIVERED_LEN_MAX => view.delivered.push_back((report.tag, offset)),
            // Unknown counts as lost: perhaps twice, never too little.
            _ => {
                view.lost.insert(report.tag);
                if view.lost.len() > LOST_LEN_MAX {
                    let last = view.lost.drain().max().unwrap_or_default();
                    view.none_through = view.none_through.max(last);
                }
            }
        }
    }

    /// What fresh signals say of a partition; nothing when they are not fresh, or not enough of them was read.
    pub(crate) fn heard(&self, partition: Partition, store: Span) -> Option<Heard> {
        let view = self.views.get(partition as usize)?.lock();
        let fresh = store.hi.ms_since(view.as_of_appended) < FRESH_MS;
        (view.has_read_enough() && fresh).then(|| Heard {
            threshold_permille: view.threshold_permille,
            covered: Covered {
                none_through: view.none_through,
                through: view.covered,
                lost: view.lost.iter().copied().collect(),
            },
        })
    }

    /// Whether the signals of every partition have been read long enough to be relied on.
    pub(crate) fn has_read_enough(&self) -> bool {
        !self.views.is_empty() && self.views.iter().all(|view| view.lock().has_read_enough())
    }

    /// Takes a heartbeat of a member into account.
    pub(crate) fn presence(&self, now: Timestamp, presence: &Presence) {
        if presence.role != Role::Agent {
            return;
        }
        let mut members = self.members.lock();
        members.listening_since.get_or_insert(now);
        if presence.leaving {
            members.heard.remove(&presence.id);
        } else if members.heard.len() < FLEET_LEN_MAX || members.heard.contains_key(&presence.id) {
            members.heard.insert(presence.id.clone(), now);
        }
        self.count(&mut members, now);
    }

    /// The store says how many agents show themselves there.
    pub(crate) fn fleet_in_store(&self, now: Timestamp, agents: u32) {
        let mut members = self.members.lock();
        members.by_store = Some((now, agents));
        self.count(&mut members, now);
    }

    /// Lets those go who were not heard of for long.
    pub(crate) fn tick(&self, now: Timestamp) {
        self.count(&mut self.members.lock(), now);
    }

    /// How many agents are active; the expected number until the first heartbeat was heard.
    pub(crate) fn fleet(&self) -> NonZeroU32 {
        NonZeroU32::new(self.active.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// The same, once someone was heard of.
    pub(crate) fn known_fleet(&self) -> Option<NonZeroU32> {
        self.members.lock().known.then(|| self.fleet())
    }

    /// Entries that are kept, for those who check on caps.
    pub(crate) fn kept(&self) -> usize {
        let kept = |view: &View| view.delivered.len() + view.lost.len();
        self.views.iter().map(|view| kept(&view.lock())).sum()
    }

    fn count(&self, members: &mut Members, now: Timestamp) {
        members.heard.retain(|_, heard| now.ms_since(*heard) <= GONE_AFTER_MS);
        let by_store = members.by_store.filter(|(at, _)| now.ms_since(*at) <= GONE_AFTER_MS).map_or(0, |(_, n)| n);
        let by_bus = u32::try_from(members.heard.len()).unwrap_or(u32::MAX);
        // With nobody heard of at all, not even oneself, the last number stands: store and bus may be away.
        let active = by_bus.max(by_store);
        if active == 0 {
            return;
        }
        // The store knows everyone; on the bus, until everyone had time to show up, those who are expected may be there.
        let listened_ms = members.listening_since.map_or(0, |since| now.ms_since(since));
        let unsure = by_store == 0 && listened_ms < LISTEN_FIRST_MS;
        let active = if unsure { active.max(self.expected) } else { active };
        self.active.store(active, Ordering::Relaxed);
        members.known = !unsure;
    }
}

impl View {
    fn has_read_enough(&self) -> bool {
        self.read.is_some_and(|(first, last)| last.ms_since(first) >= READ_FIRST_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn inbox() -> Inbox {
        Inbox::new(1, NonZeroU32::new(7).unwrap())
    }

    fn heartbeat(log: LogId, as_of: Offset, appended: u64) -> SignalBatch {
        SignalBatch {
            aggregator: "g".into(),
            partition: 0,
            log,
            as_of,
            as_of_appended: at(appended),
            threshold_permille: 500,
            signals: Vec::new(),
        }
    }

    fn heard(inbox: &Inbox, ms: u64) -> Option<Heard> {
        inbox.heard(0, Span::exactly(at(ms)))
    }

    fn member(id: &str) -> Presence {
        Presence {
            id: id.into(),
            epoch: 1,
            region: "r".into(),
            role: Role::Agent,
            generation: 1,
            clock: at(0),
            open_breakers: Vec::new(),
            dropped_rows: 0,
            leaving: false,
            http: "".into(),
            partitions: Vec::new(),
        }
    }

    /// E6: what is older than what is known changes nothing.
    #[test]
    fn signals_are_fresh_for_a_while_and_an_older_one_changes_nothing() {
        let inbox = inbox();
        assert!(inbox.signals(at(10_000), &heartbeat(1, 5, 10_000)));
        assert!(heard(&inbox, 10_500).is_none(), "not read long enough");
        assert!(inbox.signals(at(12_000), &heartbeat(1, 9, 12_000)));
        assert!(!inbox.signals(at(12_100), &heartbeat(1, 5, 10_000)));
        assert!(heard(&inbox, 14_999).is_some());
        assert!(heard(&inbox, 15_000).is_none());
    }

    #[test]
    fn own_batches_are_covered_once_signals_count_them() {
        let inbox = inbox();
        let report = |tag, offset| inbox.report(&DeliveryReport { partition: 0, tag, offset });
        report(1, Some(3));
        report(2, None);
        report(3, Some(8));
        inbox.signals(at(10_000), &heartbeat(1, 5, 10_000));
        inbox.signals(at(12_000), &heartbeat(1, 5, 12_000));
        let covered = heard(&inbox, 12_000).unwrap().covered;
        assert_eq!(covered, Covered { none_through: 0, through: 1, lost: vec![2] });
        inbox.signals(at(12_001), &heartbeat(2, 0, 12_001));
        let covered = heard(&inbox, 12_001).unwrap().covered;
        assert!(covered.none_through >= 3, "in another log nothing of the old one is counted");
    }

    /// E7: the number of active agents follows who comes and who goes.
    #[test]
    fn the_fleet_is_those_who_were_heard_of_lately() {
        let inbox = inbox();
        assert_eq!(inbox.fleet().get(), 7);
        inbox.presence(at(1_000), &member("a"));
        inbox.presence(at(1_000), &member("b"));
        assert_eq!(inbox.fleet().get(), 7, "others may not have shown themselves yet");
        inbox.tick(at(3_000));
        assert_eq!(inbox.fleet().get(), 2);
        inbox.presence(at(16_500), &member("a"));
        assert_eq!(inbox.fleet().get(), 1);
        inbox.tick(at(90_000));
        assert_eq!(inbox.fleet().get(), 1, "hearing nobody at all says nothing");
    }
}
