//! Identities of the ledger's topics, asked for by a thread of its own.
//!
//! A cluster that is not reachable answers after the time limit of the question. The thread of the budgets renews units and writes
//! limits meanwhile, so it must not wait for this.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_bus::{Bus, Topic};
use tollgate_core::messages::signals::LogId;

use super::home_buses::HomeBuses;
use crate::thread_group::ThreadGroup;

/// Time between an answer and the next question.
const IDENTITY_INTERVAL: Duration = Duration::from_secs(5);

/// Identities that one round of questions has found; 0 for one that is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundIdentities {
    /// Identity of the topic from which records are read.
    pub(super) source: LogId,
    /// Identity of the ledger at home, if records are read from a mirror of it.
    pub(super) home: LogId,
}

/// Last identities found. Both come from one round, because a mirror that is created again with its ledger must not
/// look like one that goes on with the entries of another ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct LedgerIdentities(Arc<Mutex<Option<FoundIdentities>>>);

impl LedgerIdentities {
    /// Starts the thread that asks.
    pub(super) fn watch<B: Bus>(buses: &HomeBuses<B>, threads: &mut ThreadGroup) -> std::io::Result<Self> {
        let (identities, buses) = (Self::default(), buses.clone());
        let found = identities.clone();
        threads.run("tollgate-ledger-id", move |stop| found.run(&buses, stop))?;
        Ok(identities)
    }

    /// Returns the identities, if they were asked for since the last call.
    pub(super) fn take(&self) -> Option<FoundIdentities> {
        self.0.lock().take()
    }

    fn run<B: Bus>(&self, buses: &HomeBuses<B>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let source = buses.source().log_id(Topic::Ledger);
            let home = if buses.mirror.is_some() { buses.home.log_id(Topic::Ledger) } else { 0 };
            *self.0.lock() = Some(FoundIdentities { source, home });
            std::thread::park_timeout(IDENTITY_INTERVAL);
        }
    }
}
