//! A way of limiting, the calls on which it is measured, and its figures.

use tollgate_core::rules::Quota;

use super::baseline::Baseline;
use super::measures::Measures;
use super::network::{Delays, Trial};
use super::production::ProductionWay;
use super::settings::WaySettings;
use super::workload::WayCaller;
use super::{lag, workload};
use crate::scenario::arrivals::{BEGIN, MINUTE_MS};

pub(super) const DAY_MS: u64 = 24 * 60 * MINUTE_MS;
/// Time in which every call is answered, in ms.
pub(super) const ANSWERED_MS: u64 = 100;
/// Length of the calls in a large fleet with a bus: the end of a minute with its burst. Each agent receives the heartbeats of all
/// others, so that a run costs as much as the square of the fleet.
pub(super) const SHORT_MS: u64 = 12_000;
/// Time after which such a fleet loses its store.
pub(super) const SHORT_LOST_MS: u64 = 3_000;

/// A way of limiting.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Baseline(Baseline),
    Production(ProductionWay),
}

/// The figures of a way by fleet size.
pub(super) struct WayRow {
    pub(super) way: Way,
    pub(super) measures: Vec<Measures>,
}

impl WaySettings {
    pub(super) fn delays(&self, way: Way) -> Delays {
        let is_far = matches!(way, Way::Production(way) if way.is_far);
        let store = if is_far { self.far_store_ms_max } else { self.store_ms_max };
        Delays { peer: self.peer_ms_max, store, bus: self.bus_ms_max }
    }

    /// Returns the calls of a way in a fleet of this size.
    pub(super) fn trial(&self, way: Way, nodes: usize, seed: u64) -> Trial {
        let is_short = way.has_bus() && self.is_short_with_bus(nodes);
        // The callers find their whole quota free once more after the loss of the store.
        let minutes = if is_short { 1 } else { self.minutes + u64::from(way.loses_store()) };
        let mut calls = workload::calls(&Self { minutes, ..self.clone() }, nodes, seed);
        let (mut end_ms, mut incident_ms) = (minutes * MINUTE_MS, self.minutes * MINUTE_MS * 3 / 4);
        if is_short {
            // A store is lost early, and its callers are seen for the rest of the minute.
            let (short_ms, lost_ms) = if way.loses_store() { (MINUTE_MS, SHORT_LOST_MS) } else { (SHORT_MS, SHORT_MS) };
            let left_out_ms = end_ms - short_ms;
            calls.retain(|call| call.at >= BEGIN.plus_ms(left_out_ms));
            for call in &mut calls {
                call.at = call.at.minus_ms(left_out_ms);
            }
            (end_ms, incident_ms) = (short_ms, lost_ms);
        }
        if way.is_at_one_node() {
            calls.retain(|call| !matches!(WayCaller::ALL[call.caller], WayCaller::Spread | WayCaller::Burst));
        }
        Trial {
            nodes,
            quota: Quota::new(self.quota, MINUTE_MS).expect("a quota in range"),
            callers: WayCaller::ALL.len(),
            calls,
            end: BEGIN.plus_ms(end_ms + ANSWERED_MS),
            incident: BEGIN.plus_ms(incident_ms),
            seed,
            delays: self.delays(way),
        }
    }
}

impl Way {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Baseline(baseline) => baseline.name,
            Self::Production(way) => way.name,
        }
    }

    /// Returns true if only callers that stay at one node call.
    pub(super) fn is_at_one_node(&self) -> bool {
        matches!(self, Self::Baseline(baseline) if baseline.is_at_one_node)
    }

    pub(super) fn coordination(&self) -> &'static str {
        match self {
            Self::Baseline(baseline) => baseline.coordination,
            Self::Production(way) => way.coordination,
        }
    }

    pub(super) fn has_bus(&self) -> bool {
        matches!(self, Self::Production(way) if way.has_bus)
    }

    pub(super) fn loses_store(&self) -> bool {
        matches!(self, Self::Production(way) if way.loses_store)
    }

    pub(super) fn measures(&self, settings: &WaySettings, nodes: usize, seed: u64) -> Measures {
        let trial = settings.trial(*self, nodes, seed);
        let window_ms = if matches!(self, Self::Baseline(baseline) if baseline.is_bucket) { DAY_MS } else { MINUTE_MS };
        let quota = Quota::new(settings.quota, window_ms).expect("a quota in range");
        let probes = lag::probes(nodes, settings.probes, quota, seed, settings.delays(*self));
        let (outcome, lag_outcome) = match self {
            Self::Baseline(baseline) => ((baseline.run)(&trial), (baseline.run)(&probes)),
            Self::Production(way) => (way.run(&trial, settings.counter_bytes), way.run_probes(&probes)),
        };
        let since = if self.loses_store() { trial.incident } else { BEGIN };
        let measures = Measures::of(&outcome, &trial, since, settings.calls_per_node_s);
        Measures { lag_ms: lag::lag_ms(&probes, &lag_outcome), ..measures }
    }
}
