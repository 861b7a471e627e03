//! Units of one counter that regions hold: their floors and their grants.

use std::collections::BTreeMap;

use tollgate_core::messages::ledger::{EntryId, Region, Terms};

use super::division::Claim;
use super::void::Void;

/// Maximum number of grants of one counter that a region holds. They differ in their terms or windows.
pub(crate) const GRANTS_OF_REGION_MAX: usize = 8;

/// Units of one counter, by region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CounterBudget {
    floors: Floors,
    grants: Vec<BudgetGrant>,
    wants: BTreeMap<Region, Want>,
}

pub(crate) type Floors = BTreeMap<Region, u64>;

/// Units that a region holds beside its floor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BudgetGrant {
    /// First entry that granted some of them.
    pub id: EntryId,
    /// Last entry that granted some of them. Give-backs name it: one that its writer decided on before is void.
    pub granted: EntryId,
    /// Last request that asked for them.
    pub request: EntryId,
    /// Their holder.
    pub region: Region,
    /// Units.
    pub units: u64,
    /// Last renewal or addition, or the grant; or the terms that have lengthened its window.
    pub last: EntryId,
    /// Time for which they hold from the asking, in ms.
    pub term_ms: u64,
    /// Width of the window in which they are admitted, in ms.
    pub window_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Want {
    units: u64,
    /// Request that no grant has answered.
    pending: Option<EntryId>,
}

impl CounterBudget {
    pub(crate) fn new(floors: Floors) -> Self {
        Self { floors, ..Self::default() }
    }

    /// Returns the units of a region: its floor and its grants.
    #[must_use]
    pub fn held(&self, region: &str) -> u64 {
        self.grants_of(region).fold(self.floor(region), |held, grant| held.saturating_add(grant.units))
    }

    /// Returns the units that are reserved for a region.
    #[must_use]
    pub fn floor(&self, region: &str) -> u64 {
        self.floors.get(region).copied().unwrap_or(0)
    }

    /// Returns all grants, the oldest first.
    #[must_use]
    pub fn grants(&self) -> &[BudgetGrant] {
        &self.grants
    }

    /// Returns the grants of a region, the oldest first.
    pub fn grants_of(&self, region: &str) -> impl Iterator<Item = &BudgetGrant> + Clone {
        self.grants.iter().filter(move |grant| &*grant.region == region)
    }

    /// Returns the units that a region could use in a window, as it said last.
    #[must_use]
    pub fn wants(&self, region: &str) -> u64 {
        self.wants.get(region).map_or(0, |want| want.units)
    }

    /// Returns the requests that no grant has answered, by region.
    pub fn pending(&self) -> impl Iterator<Item = (&Region, EntryId)> {
        self.wants.iter().filter_map(|(region, want)| Some((region, want.pending?)))
    }

    /// Returns the units of all regions. They exceed the quota only after it was lowered, until regions have given back.
    #[must_use]
    pub fn held_by_all(&self) -> u64 {
        self.floors.values().copied().chain(self.grants.iter().map(|grant| grant.units)).fold(0, u64::saturating_add)
    }

    /// Returns the units of regions that the terms do not name any more.
    pub(crate) fn held_outside(&self, terms: &Terms) -> u64 {
        let named = terms.floors.iter().fold(0, |sum: u64, (region, _)| sum.saturating_add(self.held(region)));
        self.held_by_all().saturating_sub(named)
    }

    /// Returns the units that no region holds.
    #[must_use]
    pub fn free(&self, quota: u64) -> u64 {
        quota.saturating_sub(self.held_by_all())
    }

    /// Returns the floors by the terms and the demands of their regions, in their order. A floor that could not rise yet is claimed
    /// like one that has. A region that waits for no grant claims at most what it holds: it may have wanted more some time ago.
    #[must_use]
    pub fn claims(&self, terms: &Terms) -> Vec<Claim> {
        let claim = |(region, floor): &(Region, u64)| {
            let is_waiting = self.wants.get(region).is_some_and(|want| want.pending.is_some());
            let wants = if is_waiting { u64::MAX } else { self.held(region) };
            Claim { floor: *floor, wants: self.wants(region).min(wants) }
        };
        terms.floors.iter().map(claim).collect()
    }

    /// Returns true if a region has less than its floor by the terms, because others hold the units.
    #[must_use]
    pub fn lacks_floors(&self, terms: &Terms) -> bool {
        terms.floors.iter().any(|(region, units)| self.floor(region) < *units)
    }

    pub(crate) fn ask(&mut self, region: Region, units: u64, request: EntryId) {
        self.wants.insert(region, Want { units, pending: Some(request) });
    }

    /// Takes a request as answered. Returns the region that asked; none if the request does not wait for an answer.
    pub(crate) fn answer(&mut self, request: EntryId) -> Option<Region> {
        let (region, want) = self.wants.iter_mut().find(|(_, want)| want.pending == Some(request))?;
        want.pending = None;
        Some(region.clone())
    }

    /// Adds units to the grant of a region with these terms, which renews it, or makes a new one. Returns false if there are too
    /// many.
    pub(crate) fn add(&mut self, grant: (EntryId, EntryId), region: Region, units: u64, terms: &Terms) -> bool {
        let (id, request) = grant;
        let Terms { term_ms, window_ms, .. } = *terms;
        let is_same = |held: &BudgetGrant| (held.term_ms, held.window_ms) == (term_ms, window_ms);
        if let Some(held) = self.grants.iter_mut().find(|held| held.region == region && is_same(held)) {
            held.units = held.units.saturating_add(units);
            (held.request, held.granted, held.last) = (request, id, id);
            return true;
        }
        let has_room = self.grants_of(&region).count() < GRANTS_OF_REGION_MAX;
        if has_room {
            self.grants.push(BudgetGrant { id, granted: id, request, region, units, last: id, term_ms, window_ms });
        }
        has_room
    }

    /// Begins the term of a grant again. The units of a region that has left the terms come back when it has ended.
    pub(crate) fn renew(&mut self, grant: EntryId, renewal: EntryId, wants: u64, terms: &Terms) -> Result<(), Void> {
        let grant = self.grants.iter_mut().find(|held| held.id == grant).ok_or(Void::Ended)?;
        if !takes_part(terms, &grant.region) {
            return Err(Void::UnknownRegion);
        }
        grant.last = renewal;
        if let Some(want) = self.wants.get_mut(&grant.region) {
            want.units = wants;
        }
        Ok(())
    }

    pub(crate) fn keep(&mut self, granted: EntryId, units: u64) -> bool {
        let Some(held) = self.grants.iter_mut().find(|held| held.granted == granted) else { return false };
        held.units = held.units.min(units);
        self.grants.retain(|grant| grant.units > 0);
        true
    }

    /// Ends a grant if nothing has renewed it after `last`. Returns true if it has ended, false if it was renewed, and none if
    /// there is no such grant.
    pub(crate) fn expire(&mut self, grant: EntryId, last: EntryId) -> Option<bool> {
        let place = self.grants.iter().position(|held| held.id == grant)?;
        let is_last = self.grants[place].last == last;
        if is_last {
            self.grants.remove(place);
        }
        Some(is_last)
    }

    /// Lengthens the windows of grants to that of the terms, in which their units are admitted from now on. An expiry
    /// must have waited for the longer window from these terms on, so the terms stand in the place of a renewal.
    pub(crate) fn lengthen_windows(&mut self, id: EntryId, terms: &Terms) {
        for grant in self.grants.iter_mut().filter(|grant| grant.window_ms < terms.window_ms) {
            (grant.window_ms, grant.last) = (terms.window_ms, id);
        }
    }

    /// Raises the floors to those of the terms, each as far as units are free. The rest is owed by those who hold it.
    pub(crate) fn raise_floors(&mut self, terms: &Terms) {
        for (region, units) in &terms.floors {
            let free = self.free(terms.quota);
            let floor = self.floors.entry(region.clone()).or_default();
            *floor += units.saturating_sub(*floor).min(free);
        }
    }

    pub(crate) fn lower_floor(&mut self, region: &str, terms: &Terms) {
        if let Some(floor) = self.floors.get_mut(region) {
            *floor = floor_of(terms, region).min(*floor);
        }
    }

    /// Forgets the demand of regions that hold no grants and wait for none.
    pub(crate) fn forget_wants(&mut self) {
        let grants = &self.grants;
        self.wants.retain(|region, want| want.pending.is_some() || grants.iter().any(|grant| grant.region == *region));
    }

    /// Returns true if the budget is that of a counter which no entry names.
    pub(crate) fn is_untouched(&self, floors: &Floors) -> bool {
        self.grants.is_empty() && self.wants.is_empty() && self.floors == *floors
    }

    pub(crate) fn floors(&self) -> &Floors {
        &self.floors
    }
}

/// Returns the floor of a region under terms; 0 if they do not name it.
#[must_use]
pub fn floor_of(terms: &Terms, region: &str) -> u64 {
    terms.floors.iter().find(|(name, _)| &**name == region).map_or(0, |(_, units)| *units)
}

/// Returns true if terms name a region.
pub(crate) fn takes_part(terms: &Terms, region: &str) -> bool {
    terms.floors.iter().any(|(name, _)| &**name == region)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(term_ms: u64) -> Terms {
        let floors = ["a", "b"].map(|region| (region.into(), 10)).to_vec();
        let (rule, window_ms) = ("global".into(), 10_000);
        Terms { rule, generation: 1, quota: 100, window_ms, term_ms, key_fingerprint: 0, floors }
    }

    fn id(sequence: u64) -> EntryId {
        EntryId { writer: 1, sequence }
    }

    #[test]
    fn further_units_are_added_to_the_grant_and_renew_it() {
        let mut budget = CounterBudget::default();
        for place in 0..20 {
            assert!(budget.add((id(2 * place + 1), id(2 * place)), "a".into(), 1, &terms(5_000)));
        }
        let [grant] = budget.grants() else { panic!("one grant: {budget:?}") };
        assert_eq!((grant.id, grant.units, grant.request, grant.last), (id(1), 20, id(38), id(39)));
        assert_eq!(budget.expire(id(1), id(1)), Some(false), "the units after it have renewed the grant");
        let others = (0..GRANTS_OF_REGION_MAX as u64)
            .map(|term| budget.add((id(50 + term), id(0)), "a".into(), 1, &terms(term)));
        assert_eq!(
            others.filter(|is_added| !is_added).count(),
            1,
            "other terms make grants of their own, up to a maximum"
        );
    }

    #[test]
    fn a_region_that_waits_for_nothing_claims_at_most_what_it_holds() {
        let mut budget = CounterBudget::default();
        budget.raise_floors(&terms(1));
        let wants =
            |budget: &CounterBudget| budget.claims(&terms(1)).iter().map(|claim| claim.wants).collect::<Vec<_>>();
        budget.ask("a".into(), 50, id(1));
        assert_eq!(wants(&budget), [50, 0]);
        assert_eq!(budget.answer(id(1)).as_deref(), Some("a"));
        budget.add((id(2), id(1)), "a".into(), 20, &terms(1));
        assert_eq!(wants(&budget), [30, 0]);
    }
}
