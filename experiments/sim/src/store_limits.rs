//! The limits of a region as its store has acknowledged them, and the planted mistakes of a store that keeps them.
//!
//! The store itself is that of production. A mistake alters a write so that the store takes what it would refuse.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::regions::stored_limit::{LimitWrite, StoredLimit};

use super::region_mistake::RegionMistake;

#[derive(Clone, Debug, Default)]
pub(super) struct AcknowledgedLimits {
    pub(super) floors: BTreeMap<Arc<str>, StoredLimit>,
    pub(super) limits: BTreeMap<CounterId, StoredLimit>,
}

impl AcknowledgedLimits {
    /// Returns the units of a counter at an instant of store time; none before a floor was written.
    pub(super) fn units_at(&self, rule: &str, counter: CounterId, store_now: Timestamp) -> Option<u64> {
        let granted = self.limits.get(&counter).map_or(0, |limit| limit.units_at(store_now));
        self.floors.get(rule).map(|floor| floor.units.saturating_add(granted))
    }

    /// Returns the units of a counter for charges by a window of this width; none before a floor was written.
    pub(super) fn units_of_window(
        &self,
        rule: &str,
        (counter, width_ms): (CounterId, u64),
        store_now: Timestamp,
    ) -> Option<u64> {
        let floor = self.floors.get(rule)?;
        let granted = self.limits.get(&counter).filter(|limit| limit.window_ms == width_ms);
        let granted = granted.map_or(0, |limit| limit.units_at(store_now));
        Some(if floor.window_ms == width_ms { floor.units.saturating_add(granted) } else { 0 })
    }

    /// Alters a write as a store with a mistake would take it. A write of another ledger is never refused.
    pub(super) fn altered(
        &self,
        mistake: Option<RegionMistake>,
        counter: CounterId,
        store_now: Timestamp,
        write: &LimitWrite,
    ) -> LimitWrite {
        let before = self.limits.get(&counter).copied().unwrap_or_default();
        let is_forced = match mistake {
            Some(RegionMistake::FenceIgnored) => true,
            Some(RegionMistake::LimitDies) => before.until <= store_now,
            _ => return *write,
        };
        let limit = StoredLimit { ledger: before.ledger + u64::from(is_forced), ..write.limit };
        LimitWrite { limit, ..*write }
    }
}
