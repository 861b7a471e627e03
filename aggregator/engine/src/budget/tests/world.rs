//! The model: its first state, its steps (`choices`, `execution`), and the properties of every state.
//!
//! Coordinators have no state: one may append any grant of a request in the log, however old its view is, and the expiry of any
//! grant or renewal that has been in the log for a term and a window. This covers every number of coordinators, their
//! suspensions and their delays. The margin of an expiry is left out: the model's clocks do not drift.

use std::sync::Arc;

use stateright::{Model, Property};
use tollgate_core::messages::ledger::LedgerEntry;

use super::bounds::{BudgetModel, ModelMistake, NAMES, Step};
use super::state::{Log, RegionState, State};

/// The regions hold and admit no more than the quota.
pub(super) const QUOTA: &str = "grants-within-quota";
/// Readers of the same entries have equal states.
pub(super) const STATE: &str = "equal states";

impl BudgetModel {
    fn is_within_quota(&self, state: &State) -> bool {
        (0..self.counters).all(|place| {
            let units = |region: &RegionState| self.live(region, place).max(region.places[place].admitted);
            state.regions.iter().map(units).sum::<u64>() <= self.quota
        })
    }
}

/// Returns true if a region admits units of a grant that stands behind such an entry.
fn makes_room(state: &State, is_such: impl Fn(&LedgerEntry) -> bool) -> bool {
    let Some(from) = state.log.records.iter().position(|record| is_such(&record.entry)) else { return false };
    let granted = state.log.records[from..].iter().filter(|record| matches!(record.entry, LedgerEntry::Grant { .. }));
    let places = || state.regions.iter().flat_map(|region| &region.places);
    granted
        .into_iter()
        .any(|grant| places().any(|place| place.admitted > 0 && place.held.iter().any(|(held, _)| *held == grant.id)))
}

impl Model for BudgetModel {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let regions = NAMES[..self.regions].iter().map(|name| RegionState::new(name, self.counters)).collect();
        let log = Arc::new(Log::new().with(self.terms()));
        let mut state = State { log, ages: vec![0], regions, ticks: 0, restarts: 0, suspensions: 0, begun: [0; 3] };
        for region in 0..self.regions {
            state.regions[region].read = 1;
            self.read(&mut state, region, 0);
        }
        vec![state]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for region in 0..self.regions {
            self.region_steps(state, region, steps);
        }
        self.coordinator_steps(state, steps);
        if state.ticks == self.ticks_max {
            return;
        }
        steps.push(Step::Tick { stopped: None });
        if self.has(ModelMistake::ClockStops) {
            steps.extend((0..self.regions).map(|region| Step::Tick { stopped: Some(region) }));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, step)?;
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(QUOTA, |model: &Self, state| model.is_within_quota(state)),
            Property::always(STATE, |_, state: &State| {
                state.regions.iter().all(|region| state.log.digests.get(region.read) == Some(&region.digest))
            }),
            Property::sometimes("a give-back makes room for a grant", |_, state: &State| {
                makes_room(state, |entry| matches!(entry, LedgerEntry::GiveBack { .. }))
            }),
            Property::sometimes("an expiry makes room for a grant", |_, state: &State| {
                makes_room(state, |entry| matches!(entry, LedgerEntry::Expiry { .. }))
            }),
            Property::sometimes("the ledger is full", |model: &Self, state: &State| {
                state.log.records.len() > model.entries_max
            }),
        ]
    }
}
