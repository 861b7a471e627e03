//! Looking at what the pump counts, from other threads: questions wait in a short queue, and the pump answers between two
//! rounds. So counting needs no locks.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::sync::oneshot;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;

use super::aside::Aside;
use crate::counting::Entry;

/// How many questions may wait; more are refused.
const QUESTIONS_LEN_MAX: usize = 64;

/// Which counters to show.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only those of this rule.
    pub rule: Option<String>,
    /// Only those whose label contains this.
    pub label: Option<String>,
    /// At most so many, the fullest first.
    pub limit: usize,
}

/// A counter as it stands.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its partition.
    pub partition: Partition,
    /// All that is known of it.
    pub entry: Entry,
}

/// What a filter found.
#[derive(Clone, Debug)]
pub struct View {
    /// The pump's time.
    pub now: Timestamp,
    /// How many counters matched, shown or not.
    pub matched: usize,
    /// Those that are shown.
    pub counters: Vec<Shown>,
    /// The partitions that are counted here and restored, those that it is handing over included.
    pub partitions: Vec<PartStatus>,
}

/// How one partition stands.
#[derive(Clone, Copy, Debug)]
pub struct PartStatus {
    /// Which.
    pub partition: Partition,
    /// The last record that is counted.
    pub read: Option<(Offset, Timestamp)>,
    /// Up to when all live agents have told all.
    pub watermark: Option<Timestamp>,
    /// Whether what is said of it may be relied on.
    pub restored: bool,
    /// Whether it is this aggregator's own, not one that it is handing over.
    pub owned: bool,
}

/// How the pump stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// Whether it knows which partitions are its own.
    pub settled: bool,
    /// How many aggregators are there.
    pub members: usize,
    /// Where the others answer over HTTP.
    pub others: Vec<Arc<str>>,
    /// Its partitions.
    pub partitions: Vec<PartStatus>,
    /// How many are its own and not taken up yet.
    pub waiting: usize,
    /// What is wrong with the bus.
    pub bus_error: Option<String>,
}

/// A question to the pump.
pub(super) enum Question {
    Counters(Filter, oneshot::Sender<View>),
    Status(oneshot::Sender<Status>),
    Asides(oneshot::Sender<Vec<Aside>>),
}

/// Asks a pump; clones ask the same one.
#[derive(Clone)]
pub struct Window(SyncSender<Question>);

impl Window {
    pub(super) fn open() -> (Self, Receiver<Question>) {
        let (asking, asked) = sync_channel(QUESTIONS_LEN_MAX);
        (Self(asking), asked)
    }

    /// The counters that match; nothing when the pump has no time.
    pub async fn counters(&self, filter: Filter) -> Option<View> {
        self.ask(|reply| Question::Counters(filter, reply)).await
    }

    /// How the pump stands; nothing when it has no time.
    pub async fn status(&self) -> Option<Status> {
        self.ask(Question::Status).await
    }

    /// The records that were set aside last; nothing when the pump has no time.
    pub async fn asides(&self) -> Option<Vec<Aside>> {
        self.ask(Question::Asides).await
    }

    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Question) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.0.try_send(question(reply)).ok()?;
        answer.await.ok()
    }
}
