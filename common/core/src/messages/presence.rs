//! Heartbeats: who is there.

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::counter::Partition;
use crate::rules::Generation;

/// How often a member shows itself, in ms.
pub const INTERVAL_MS: u64 = 1_000;
/// After so long without a heartbeat a member is gone, in ms: with the last heartbeat and the next look around it, all know
/// within 15 s.
pub const GONE_AFTER_MS: u64 = 13_000;

/// One record of the log `presence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// The member.
    pub id: Arc<str>,
    /// Which life of it, in ms since the epoch of its start.
    pub epoch: u64,
    /// Where it is.
    pub region: Arc<str>,
    /// What it is.
    pub role: Role,
    /// The rules in force there.
    pub generation: Generation,
    /// What its clock says.
    pub clock: Timestamp,
    /// The store nodes it does not ask at present.
    pub open_breakers: Vec<Arc<str>>,
    /// Rows it could not publish in this life.
    pub dropped_rows: u64,
    /// Whether this is its last heartbeat.
    pub leaving: bool,
    /// Where it answers other members over HTTP, as host:port; empty when it does not.
    pub http: Arc<str>,
    /// Of an aggregator: the partitions that are its own and restored.
    pub partitions: Vec<Partition>,
}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Enforces.
    Agent,
    /// Counts.
    Aggregator,
}
