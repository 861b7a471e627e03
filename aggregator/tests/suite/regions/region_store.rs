//! Store of a region, which admits calls as the script does.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{CounterId, DigestKey, StoreError};
use tollgate_core::regions::limit_store::LimitStore;
use tollgate_core::regions::stored_limit::{LimitAnswer, LimitWrite, StoredLimit};
use tollgate_core::window::{Estimate, Ring, Window};

pub(super) const RULE: &str = "global";
pub(super) const FLOOR: u64 = 10;

/// Store of a region; clones share it.
#[derive(Clone)]
pub(super) struct RegionStore {
    window: Window,
    clock: Arc<dyn Clock>,
    records: Arc<Mutex<StoreRecords>>,
}

#[derive(Default)]
struct StoreRecords {
    limits: BTreeMap<CounterId, StoredLimit>,
    floor: Option<StoredLimit>,
    admitted: Option<Ring>,
    is_away: bool,
}

impl RegionStore {
    pub(super) fn new(clock: Arc<dyn Clock>, window: Window) -> Self {
        Self { window, clock, records: Arc::default() }
    }

    /// Charges a call; returns true if it was admitted.
    pub(super) fn charge(&self, units: u64) -> bool {
        let now = self.clock.now();
        let mut records = self.records.lock().expect("no panic");
        let limit = records.limit(now);
        let ring = records.admitted.get_or_insert_with(|| Ring::new(self.window));
        let is_admitted = ring.used(now, Estimate::Conservative) + units <= limit;
        if is_admitted {
            ring.add(self.window.sub_window(now), units);
        }
        is_admitted
    }

    pub(super) fn limit(&self) -> u64 {
        self.records.lock().expect("no panic").limit(self.clock.now())
    }

    pub(super) fn set_away(&self, is_away: bool) {
        self.records.lock().expect("no panic").is_away = is_away;
    }

    fn records(&self) -> Result<MutexGuard<'_, StoreRecords>, StoreError> {
        let records = self.records.lock().expect("no panic");
        if records.is_away { Err(StoreError::Unreachable) } else { Ok(records) }
    }
}

impl StoreRecords {
    fn limit(&self, now: Timestamp) -> u64 {
        let granted = self.limits.get(&counter()).map_or(0, |limit| limit.units_at(now));
        self.floor.map_or(FLOOR, |floor| floor.units) + granted
    }
}

impl LimitStore for RegionStore {
    async fn write_limit(
        &self,
        _: &str,
        counter: CounterId,
        write: &LimitWrite,
    ) -> Result<(Timestamp, LimitAnswer), StoreError> {
        let (now, mut records) = (self.clock.now(), self.records()?);
        let limit = records.limits.get(&counter).copied().unwrap_or_default().after(write);
        records.limits.insert(counter, limit);
        let used = records.admitted.as_ref().map_or(0, |ring| ring.used(now, Estimate::Conservative));
        Ok((now, LimitAnswer { limit, floor: records.floor.map_or(FLOOR, |floor| floor.units), used }))
    }

    async fn write_floor(&self, rule: &str, write: &LimitWrite) -> Result<(Timestamp, StoredLimit), StoreError> {
        assert_eq!(rule, RULE);
        let mut records = self.records()?;
        let floor = records.floor.unwrap_or_default().after(write);
        records.floor = Some(floor);
        Ok((self.clock.now(), floor))
    }

    async fn time(&self) -> Result<Timestamp, StoreError> {
        self.records().map(|_| self.clock.now())
    }
}

pub(super) fn counter() -> CounterId {
    DigestKey::default().counter(RULE, ["client"])
}
