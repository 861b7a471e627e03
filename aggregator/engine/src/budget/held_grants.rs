//! Grants of one counter that a region may use: those whose terms it can prove.
//!
//! A holder counts the term of a grant from the instant at which it asked for it, by its own clock and by that of its store. It has
//! asked for a renewal of what its predecessor holds before it uses it.

use std::collections::BTreeMap;

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::EntryId;

use super::coordinator::DRIFT_PPM;
use super::counter_budget::BudgetGrant;

/// Instant at which a region asked for units, or for a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asking {
    /// By a clock of its own that counts suspended time.
    pub(super) own: Timestamp,
    /// Earliest that the store's clock may have shown.
    pub(super) store: Timestamp,
}

/// Units that a region may use. They come with the store times of the last asking for any of them, and of the end of
/// the first of their terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LiveUnits {
    pub(super) units: u64,
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

/// Instants at which a region has asked for its grants, by the grant.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldGrants {
    asked: BTreeMap<EntryId, Asking>,
}

impl Asking {
    /// Returns the asking by a store's clock that has stepped back.
    pub(super) fn stepped_back(self, by_ms: u64) -> Self {
        Self { store: self.store.minus_ms(by_ms), ..self }
    }
}

impl HeldGrants {
    /// Notes that an asking is answered: a grant, or its renewal.
    pub(super) fn answered(&mut self, grant: EntryId, asking: Asking) {
        let known = self.asked.entry(grant).or_insert(asking);
        if asking.own > known.own {
            *known = asking;
        }
    }

    pub(super) fn step_back(&mut self, by_ms: u64) {
        self.asked.values_mut().for_each(|asking| *asking = asking.stepped_back(by_ms));
    }

    /// Forgets the grants that have ended.
    pub(super) fn retain<'a>(&mut self, grants: impl Iterator<Item = &'a BudgetGrant>) {
        let ids: Vec<EntryId> = grants.map(|grant| grant.id).collect();
        self.asked.retain(|grant, _| ids.contains(grant));
    }

    /// Returns the time since the asking for a grant; none if this process has not asked.
    pub(super) fn age_ms(&self, grant: EntryId, now: Timestamp) -> Option<u64> {
        self.asked.get(&grant).map(|asking| now.ms_since(asking.own))
    }

    /// Returns the units whose terms have not ended.
    pub(super) fn live<'a>(&self, grants: impl Iterator<Item = &'a BudgetGrant>, now: Timestamp) -> LiveUnits {
        let mut live = LiveUnits::default();
        for grant in grants {
            let Some(asking) = self.asked.get(&grant.id) else { continue };
            let term_ms = grant.term_ms - grant.term_ms.saturating_mul(DRIFT_PPM).div_ceil(1_000_000);
            if now.ms_since(asking.own) < term_ms {
                let until = asking.store.plus_ms(term_ms);
                live.until = if live.units == 0 { until } else { live.until.min(until) };
                live.from = live.from.max(asking.store);
                live.units = live.units.saturating_add(grant.units);
            }
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(number: u64, units: u64) -> BudgetGrant {
        let id = EntryId { writer: 1, sequence: number };
        BudgetGrant {
            id,
            granted: id,
            request: id,
            region: "a".into(),
            units,
            last: id,
            term_ms: 10_000,
            window_ms: 5_000,
        }
    }

    /// The term is counted from the asking, less 4 ms for the drift of two clocks.
    #[test]
    fn a_grant_is_used_from_its_asking_to_the_end_of_its_term() {
        let grants = [grant(1, 5), grant(2, 7)];
        let (first, second) = (grants[0].id, grants[1].id);
        let ms = Timestamp::from_ms;
        let asking = |own_ms, store_ms| Asking { own: ms(own_ms), store: ms(store_ms) };
        let mut held = HeldGrants::default();
        let live = |held: &HeldGrants, now_ms| held.live(grants.iter(), ms(now_ms));
        assert_eq!((live(&held, 0), held.age_ms(first, ms(0))), (LiveUnits::default(), None), "nobody has asked");
        held.answered(first, asking(1_000, 501_000));
        assert_eq!(live(&held, 1_000), LiveUnits { units: 5, from: ms(501_000), until: ms(510_996) });
        held.answered(second, asking(3_000, 503_000));
        held.answered(second, asking(2_000, 502_000));
        assert_eq!(held.age_ms(second, ms(3_500)), Some(500), "an older answer changes nothing");
        assert_eq!(live(&held, 10_995), LiveUnits { units: 12, from: ms(503_000), until: ms(510_996) });
        assert_eq!(live(&held, 10_996), LiveUnits { units: 7, from: ms(503_000), until: ms(512_996) });
        assert_eq!(live(&held, 12_996), LiveUnits::default());
        held.retain(grants[..1].iter());
        assert_eq!(live(&held, 3_000), LiveUnits { units: 5, from: ms(501_000), until: ms(510_996) });
        held.step_back(400_000);
        assert_eq!(live(&held, 3_000), LiveUnits { units: 5, from: ms(101_000), until: ms(110_996) });
        assert_eq!(live(&held, 10_996), LiveUnits::default(), "its own clock has not stepped");
    }
}
