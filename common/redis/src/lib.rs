//! Redis as Tollgate uses it: a connection that never makes a caller wait, scripts sent by their hash, and errors that tell
//! whether a request may have run.
//!
//! Its users are the agent's store of counters (`agent/src/store/redis`), the copy of the published rules
//! ([`RuleMirror`]), the registry of live agents ([`FleetRegistry`]), the witness of lost data ([`Witnesses`]), and the limits of
//! a region ([`RegionLimits`]).
//! A cluster is [`Cluster`], with a connection to each primary. Redis 5 or newer is needed, since a script reads the time and then writes.

mod access;
mod address;
mod settings;
mod remedy;
mod connect_error;
mod errors;
mod script;
mod eviction;
mod replication;
mod keys;
mod older_answers;
mod connection;
mod cluster;
mod link;
mod fleet_registry;
mod rule_mirror;
mod witness;
mod region_limits;

pub use access::{RedisCredentials, RedisTlsFiles};
pub use address::RedisAddressError;
pub use cluster::{Cluster, TopologyListener};
pub use connection::{RedisConnection, ServerWay, Socket};
pub use fleet_registry::FleetRegistry;
pub use keys::{counter_key, floor_key, key_claim_key, limit_key};
pub use link::RedisLink;
pub use region_limits::{KEY_CLAIM, RegionLimits, read_limit};
pub use rule_mirror::{MirrorOutcome, RuleMirror};
pub use script::Script;
pub use settings::{CONNECT_TIMEOUT_DEFAULT, HashSlots, PREFIX_DEFAULT, RedisSettings};
pub use witness::{RaisedNumber, Witnesses};
