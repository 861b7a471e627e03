//! Fleets, stores and regions in virtual time: properties, planted mistakes, and single incidents.

mod invariants;
mod scenario;
mod region_worlds;
mod algorithms;
mod backfill;
mod clock_steps;
mod coverage;
mod emergency;
mod eventual;
mod failover;
mod fleet_on_redis;
mod fleet_parts;
mod flood;
mod late_bus;
mod late_parts;
mod late_store;
mod leases;
mod mixed_rules;
mod lost_counters;
mod outage;
mod random_world;
mod regions;
mod replay;
mod settlements;
mod slots;
mod starting;
