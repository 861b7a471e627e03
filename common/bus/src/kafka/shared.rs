//! State that the clones of a bus share with its writers and readers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tollgate_core::messages::signals::LogId;

use super::producer::ProducerHandle;
use super::settings::KafkaSettings;
use super::topics::VerifiedTopics;
use crate::Topic;

pub(super) struct KafkaShared {
    pub(super) settings: KafkaSettings,
    pub(super) producer: ProducerHandle,
    pub(super) prepared: AtomicBool,
    /// Topics of the last attempt to prepare them, if that succeeded.
    pub(super) verified: Mutex<Option<VerifiedTopics>>,
    /// Last known topic ids.
    pub(super) ids: Mutex<HashMap<Topic, LogId>>,
}

impl KafkaShared {
    pub(super) fn new(settings: KafkaSettings, producer: ProducerHandle) -> Self {
        Self { settings, producer, prepared: AtomicBool::default(), verified: Mutex::default(), ids: Mutex::default() }
    }

    pub(super) fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }
}
