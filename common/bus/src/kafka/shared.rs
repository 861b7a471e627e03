//! State that the clones of a bus share with its writers and readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tollgate_core::messages::signals::LogId;

use super::access::LoadedAccess;
use super::found_topics::{FoundTopics, permits};
use super::producer::ProducerHandle;
use super::rights::NeededRights;
use super::settings::KafkaSettings;
use super::topic_id::TopicOperation;
use super::topics::VerifiedTopics;
use crate::{BusError, Topic};

pub(super) struct KafkaShared {
    pub(super) settings: KafkaSettings,
    pub(super) producer: ProducerHandle,
    pub(super) prepared: AtomicBool,
    /// Topics of the last attempt to prepare them, if that succeeded.
    pub(super) verified: Mutex<Option<VerifiedTopics>>,
    /// Last known topic ids.
    pub(super) ids: Mutex<HashMap<Topic, LogId>>,
    pub(super) needed: NeededRights,
    /// Topics that this user may not write. Records for them wait: a producer without any right to write fails for good.
    denied: Mutex<Vec<Topic>>,
    /// Access of the present clients.
    access: Mutex<LoadedAccess>,
    /// Number of times that the clients were replaced.
    renewals: AtomicU64,
}

impl KafkaShared {
    pub(super) fn new(settings: KafkaSettings, producer: ProducerHandle) -> Result<Self, BusError> {
        let access = Mutex::new(settings.access.load()?);
        Ok(Self {
            settings,
            producer,
            prepared: AtomicBool::default(),
            verified: Mutex::default(),
            ids: Mutex::default(),
            needed: NeededRights::default(),
            denied: Mutex::default(),
            access,
            renewals: AtomicU64::new(0),
        })
    }

    pub(super) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }

    /// Returns true if the topics are prepared, and this user may write this one.
    pub(super) fn is_writable(&self, topic: Topic) -> bool {
        self.is_prepared() && !self.denied.lock().contains(&topic)
    }

    pub(super) fn note_writable(&self, found: &FoundTopics) {
        let topics = found.iter().map(|(topic, _)| *topic);
        let denied = topics.filter(|topic| !permits(found, TopicOperation::Write, *topic));
        *self.denied.lock() = denied.collect();
    }

    /// Returns the number of times that the clients were replaced; a reader follows it.
    pub(super) fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Acquire)
    }

    /// Replaces the clients if a broker refuses their access and the files have changed since.
    pub(super) fn renew_if_refused(&self) -> Result<(), BusError> {
        let faults = self.producer.context.faults();
        if faults.newest().is_none() {
            return Ok(());
        }
        let mut access = self.access.lock();
        let loaded = self.settings.access.load()?;
        if loaded == *access {
            return Ok(());
        }
        self.producer.renew(&self.settings.producer()?)?;
        *access = loaded;
        self.renewals.fetch_add(1, Ordering::Release);
        faults.clear();
        tracing::info!(
            brokers = self.settings.brokers,
            "the files with the access to Kafka have changed, and connect anew"
        );
        Ok(())
    }
}
