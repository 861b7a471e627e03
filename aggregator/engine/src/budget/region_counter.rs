//! One counter of a region: what the region asks for, renews and gives back of it, and the limit in its store.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{EntryId, Terms};

use super::counter_budget::{CounterBudget, takes_part};
use super::demand::{DemandMeter, needed, wanted};
use super::give_back::{GiveBack, chosen, owed};
use super::held_grants::HeldGrants;
use super::void_requests::{RequestFacts, VoidRequests};
use tollgate_core::regions::stored_limit::{Fence, LimitAnswer, StoredLimit};

/// Time after which an asking that is not answered is repeated, in ms.
const REPEATED_AFTER_MS: u64 = 1_000;
/// Time in which a process that takes a counter over reads the renewal of its grants, in ms.
const TAKEN_OVER_MS: u64 = 2_000;
/// Smallest part of the quota that a region gives back, or asks for beside its need, as a divisor. Smaller differences
/// stay, because budgets would otherwise move with each change of the demand.
const STEADY_PARTS: u64 = 384;

#[derive(Clone, Debug)]
pub(super) struct RegionCounter {
    pub(super) demand: DemandMeter,
    /// Units that an operator wants in place of the demand, and the instant of this wish.
    pub(super) wanted: Option<(u64, Timestamp)>,
    pub(super) held: HeldGrants,
    pub(super) giving: Option<GiveBack>,
    /// Limit in the store, as its last answer said; none before the first one.
    pub(super) stored: Option<StoredLimit>,
    /// Last request, its instant, and the units wanted.
    pub(super) asked: Option<(EntryId, Timestamp, u64)>,
    void_requests: Option<VoidRequests>,
    renewed_at: Option<Timestamp>,
    /// Units that the region could use, with those of its floor.
    pub(super) wants: u64,
    /// Instant from which this process looks after the counter.
    since: Timestamp,
}

pub(super) struct LedgerFacts<'a> {
    pub(super) terms: &'a Terms,
    pub(super) budget: &'a CounterBudget,
    pub(super) region: &'a str,
}

pub(super) enum Need {
    Request { wants: u64 },
    Renewals { grants: Vec<EntryId>, wants: u64 },
    GiveBack { grant: EntryId, keeps: u64 },
}

impl LedgerFacts<'_> {
    fn request_facts(&self) -> RequestFacts {
        RequestFacts { generation: self.terms.generation, free: self.budget.free(self.terms.quota) }
    }
}

impl RegionCounter {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            demand: DemandMeter::new(now),
            wanted: None,
            held: HeldGrants::default(),
            giving: None,
            stored: None,
            asked: None,
            void_requests: None,
            renewed_at: None,
            wants: 0,
            since: now,
        }
    }

    /// Returns true if the region neither holds nor wants anything beside its floor, and waits for no grant. A grant
    /// that comes when the demand has gone is given back at once, by a process that knows the demand.
    pub(super) fn is_idle(&self, facts: &LedgerFacts<'_>) -> bool {
        self.wants == 0
            && self.wanted.is_none()
            && self.giving.is_none()
            && self.stored.is_none_or(|stored| stored.units == 0)
            && facts.budget.grants_of(facts.region).next().is_none()
            && facts.budget.pending().all(|(region, _)| &**region != facts.region)
    }

    /// Returns true if this process has just taken the counter over and does not know the terms of its grants yet. The limit that the
    /// predecessor has written stays meanwhile: it ends by itself, and a limit of 0 would take the region's units for nothing.
    pub(super) fn awaits_renewal(&self, now: Timestamp, facts: &LedgerFacts<'_>) -> bool {
        self.stored.is_none()
            && self.giving.is_none()
            && facts.budget.grants_of(facts.region).next().is_some()
            && now.ms_since(self.since) < TAKEN_OVER_MS
    }

    /// Ends an interval of the demand, and returns what the counter needs. `floor_of_all` is the floor that the store enforces for all
    /// counters of the rule: the least one, because a counter may wait for units. `counts_all` is false while calls may be missing
    /// from the demand. `is_read` tells if an entry is in the ledger.
    pub(super) fn needs(
        &mut self,
        now: Timestamp,
        facts: &LedgerFacts<'_>,
        floor_of_all: u64,
        counts_all: bool,
        is_read: impl Fn(EntryId) -> bool,
    ) -> Vec<Need> {
        let LedgerFacts { terms, budget, region } = *facts;
        if !counts_all {
            self.demand.miss(now);
        }
        let measured = self.demand.tick(now, terms.window_ms);
        self.wanted.take_if(|(_, since)| now.ms_since(*since) >= terms.term_ms);
        let takes_part = takes_part(terms, region);
        let demand = self.wanted.map_or(measured, |(units, _)| units);
        let demand = if takes_part { demand } else { 0 };
        let is_scarce = is_scarce(facts, wanted(demand, false));
        let (held, floor) = (budget.held(region), budget.floor(region));
        // A successor does not give back what its predecessor holds before it knows the demand: by time, or as it wanted more.
        let is_settled = !takes_part || self.demand.is_settled(now, terms.window_ms);
        let knows_demand = self.asked.is_some() || self.wanted.is_some() || is_settled;
        let wanted_before = if knows_demand { 0 } else { budget.wants(region).min(held) };
        // Granted units replace the part of the floor that the store does not enforce, if the demand needs it.
        let unenforced = floor.saturating_sub(floor_of_all);
        let beside = |units: u64| if units > floor_of_all { units.saturating_add(unenforced) } else { units };
        self.wants = beside(wanted(demand, is_scarce)).max(wanted_before);
        let steady = terms.quota / STEADY_PARTS;
        let mut needs = Vec::new();
        let is_asking = self.asked.is_some_and(|(id, at, wants)| {
            let is_pending = budget.pending().any(|(_, request)| request == id);
            let repeated_after_ms = if is_pending { terms.term_ms / 4 } else { REPEATED_AFTER_MS };
            let is_answered = !is_pending && is_read(id);
            let void_ms =
                self.void_requests.map_or(0, |void| void.repeated_after_ms(facts.request_facts(), terms.term_ms));
            if is_answered && now.ms_since(at) < void_ms {
                return true;
            }
            let is_waiting = !is_answered && now.ms_since(at) < REPEATED_AFTER_MS.max(repeated_after_ms);
            is_waiting && wants.abs_diff(self.wants) <= steady + wants / 4
        });
        if beside(needed(demand, is_scarce)) > held && held < terms.quota && !is_asking && self.giving.is_none() {
            needs.push(Need::Request { wants: self.wants });
        }
        let owed = owed(budget, terms, region, self.wants);
        let spare = held.saturating_sub(self.wants.max(floor));
        let is_idle = spare > steady + 2 * self.wants.saturating_sub(floor);
        // Units beyond a lowered quota, those of a floor that waits for them, and those of a region that has left the terms are given
        // back to the last one.
        let is_exact = !takes_part || budget.held_by_all() > terms.quota || budget.lacks_floors(terms);
        let units = if is_idle {
            spare
        } else if owed > steady || is_exact {
            owed
        } else {
            0
        };
        let may_give = self.giving.is_none() && knows_demand;
        let chosen = chosen(budget, region, units).filter(|_| may_give);
        if let Some((grant, keeps)) = chosen {
            needs.push(Need::GiveBack { grant, keeps });
        }
        let ending = self.giving.map(|giving| giving.fence).filter(|fence| fence.keeps == 0).map(|fence| fence.grant);
        let ending = ending.or(chosen.filter(|(_, keeps)| *keeps == 0).map(|(grant, _)| grant));
        let is_due = |grant: EntryId| self.held.age_ms(grant, now).is_none_or(|age_ms| age_ms >= terms.term_ms / 2);
        let is_renewing = self.renewed_at.is_some_and(|at| now.ms_since(at) < REPEATED_AFTER_MS);
        let grants = budget.grants_of(region).filter(|grant| Some(grant.granted) != ending);
        if self.wants > floor && !is_renewing && grants.clone().any(|grant| is_due(grant.id)) {
            self.renewed_at = Some(now);
            needs.push(Need::Renewals { grants: grants.map(|grant| grant.id).collect(), wants: self.wants });
        }
        needs
    }

    /// Takes a request of this region as read in the ledger, valid or void.
    pub(super) fn read_request(&mut self, request: EntryId, facts: &LedgerFacts<'_>, is_valid: bool) {
        if self.asked.is_some_and(|(id, ..)| id == request) {
            self.void_requests = (!is_valid).then(|| VoidRequests::with(self.void_requests, facts.request_facts()));
        }
    }

    /// Returns the limit that the store should have; its fence is that of a give-back under way.
    pub(super) fn limit(&self, now: Timestamp, facts: &LedgerFacts<'_>, as_of: u64) -> StoredLimit {
        let LedgerFacts { terms, budget, region } = *facts;
        let live = self.held.live(budget.grants_of(region), now);
        let given = self.giving.and_then(|giving| {
            let grant = budget.grants_of(region).find(|grant| grant.granted == giving.fence.grant)?;
            let is_live = self.held.live(std::iter::once(grant), now).units > 0;
            is_live.then(|| grant.units.saturating_sub(giving.fence.keeps))
        });
        StoredLimit {
            units: live.units.saturating_sub(given.unwrap_or(0)),
            from: live.from,
            until: live.until,
            window_ms: terms.window_ms,
            as_of,
            fence: self.giving.map(|giving| giving.fence),
            ..StoredLimit::default()
        }
    }

    /// Takes the store's answer to a write: the limit in force, and the units of the last window. Returns the give-back that may
    /// be appended. `is_read` tells if an entry is in the ledger.
    pub(super) fn written(
        &mut self,
        now: Timestamp,
        facts: &LedgerFacts<'_>,
        answer: &LimitAnswer,
        is_read: impl Fn(EntryId) -> bool,
    ) -> Option<Fence> {
        let LimitAnswer { limit: stored, floor, used } = *answer;
        self.stored = Some(stored);
        let fence = stored.fence.filter(|fence| !is_read(fence.id))?;
        // A predecessor may have lowered the limit: its give-back must be in the ledger before the limit rises.
        let known = self.giving.filter(|giving| giving.fence == fence);
        let appended_at = known.and_then(|giving| giving.appended_at);
        self.giving = Some(GiveBack { fence, appended_at });
        // The floor of the store may be on its way down, for a give-back of its own.
        let kept = facts.budget.floor(facts.region).min(floor).saturating_add(stored.units);
        if used > kept || appended_at.is_some_and(|at| now.ms_since(at) < REPEATED_AFTER_MS) {
            return None;
        }
        self.giving = Some(GiveBack { fence, appended_at: Some(now) });
        Some(fence)
    }

    /// Returns true if a give-back waits for the window, or may have been lost on its way to the ledger.
    pub(super) fn gives_back(&self, now: Timestamp) -> bool {
        let is_over = |at| now.ms_since(at) >= REPEATED_AFTER_MS;
        self.giving.is_some_and(|giving| giving.appended_at.is_none_or(is_over))
    }

    /// Ends a give-back that is in the ledger.
    pub(super) fn gave_back(&mut self, is_read: impl Fn(EntryId) -> bool) {
        self.giving.take_if(|giving| is_read(giving.fence.id));
    }
}

/// Returns true if the quota is less than what all regions want together.
fn is_scarce(facts: &LedgerFacts<'_>, own_wants: u64) -> bool {
    let LedgerFacts { terms, budget, region } = *facts;
    let wants = terms.floors.iter().zip(budget.claims(terms)).map(|((name, _), claim)| {
        let wants = if &**name == region { own_wants } else { claim.wants };
        wants.max(claim.floor)
    });
    wants.fold(0, u64::saturating_add) > terms.quota
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> EntryId {
        EntryId { writer: 1, sequence }
    }

    /// The limit of the store is 4 units. The floor of the ledger is 2.
    #[test]
    fn a_give_back_is_appended_when_the_window_is_within_the_kept_units() {
        let (window_ms, term_ms, key_fingerprint) = (10, 12, 42);
        let floors = vec![("a".into(), 2)];
        let terms = Terms { rule: "rule".into(), generation: 1, quota: 9, window_ms, term_ms, key_fingerprint, floors };
        let budget = CounterBudget::new([("a".into(), 2)].into());
        let facts = LedgerFacts { terms: &terms, budget: &budget, region: "a" };
        let fence = Fence { id: id(5), grant: id(3), keeps: 4 };
        let now = Timestamp::from_ms(100);
        for (case, shown, is_read, floor, used, expected) in [
            ("within the limit", Some(fence), false, 2, 4, Some(fence)),
            ("within limit and floor", Some(fence), false, 2, 6, Some(fence)),
            ("more than is kept", Some(fence), false, 2, 7, None),
            ("a floor on its way down", Some(fence), false, 0, 5, None),
            ("a floor on its way up", Some(fence), false, 9, 7, None),
            ("no fence", None, false, 2, 0, None),
            ("in the ledger", Some(fence), true, 2, 0, None),
        ] {
            let mut counter = RegionCounter::new(now);
            let limit = StoredLimit { units: 4, fence: shown, ..StoredLimit::default() };
            assert_eq!(
                counter.written(now, &facts, &LimitAnswer { limit, floor, used }, |_| is_read),
                expected,
                "{case}"
            );
            assert_eq!(counter.giving.is_some(), shown.is_some() && !is_read, "{case}");
            counter.gave_back(|_| true);
            assert!(counter.giving.is_none());
        }
    }
}
