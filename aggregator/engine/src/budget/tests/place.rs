//! One counter at one region in the model: the production rules by which a holder uses, lowers and gives back, over ages in ticks.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::EntryId;

use super::super::give_back::GiveBack;
use super::super::held_grants::Asking;
use super::super::region_counter::{LedgerFacts, RegionCounter};
use tollgate_core::regions::stored_limit::{Fence, LimitAnswer, LimitWrite, StoredLimit};

pub(super) const TICK_MS: u64 = 1_000;
/// Term of a grant, in ticks. The window is one tick.
pub(super) const TERM: u8 = 2;
/// Current instant of every state: ages grow instead.
const NOW: Timestamp = Timestamp::from_ms(1_000_000);

/// Time since an asking, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Ages {
    /// By the process's own clock.
    own: u8,
    /// By the store's clock.
    store: u8,
}

/// State of one counter at one region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// Own requests and renewals that are not read, with their ages.
    pub(super) askings: Vec<(EntryId, Ages)>,
    /// Grants that the process has asked for, with the ages of the last asking that was answered.
    pub(super) held: Vec<(EntryId, Ages)>,
    /// Give-back under way, and true if it was appended.
    pub(super) giving: Option<(Fence, bool)>,
    /// Fence that the store has shown to the process.
    pub(super) fence: Option<EntryId>,
    pub(super) store: StoredLimit,
    /// Units that were admitted in the window.
    pub(super) admitted: u64,
}

impl Place {
    /// Takes an entry as read: the grant, or its renewal, for which the process asked.
    pub(super) fn read(&mut self, asked: EntryId, grant: EntryId) {
        let Some(index) = self.askings.iter().position(|(id, _)| *id == asked) else { return };
        let (_, ages) = self.askings.remove(index);
        match self.held.iter_mut().find(|(id, _)| *id == grant) {
            Some((_, known)) if known.own <= ages.own => {}
            Some((_, known)) => *known = ages,
            None => self.held.push((grant, ages)),
        }
    }

    /// Forgets what the process knew.
    pub(super) fn restart(&mut self) {
        let (store, admitted) = (self.store, self.admitted);
        *self = Self { store, admitted, ..Self::default() };
    }

    /// Returns the production state that follows from the ages.
    fn production(&self) -> RegionCounter {
        let mut counter = RegionCounter::new(NOW);
        let before = |age| NOW.minus_ms(u64::from(age) * TICK_MS);
        for (grant, ages) in &self.held {
            counter.held.answered(*grant, Asking { own: before(ages.own), store: before(ages.store) });
        }
        counter.giving = self.giving.map(|(fence, is_appended)| {
            let appended_at = is_appended.then_some(NOW);
            GiveBack { fence, appended_at }
        });
        counter
    }

    /// Returns the write of the limit that the process may use.
    pub(super) fn write(&self, facts: &LedgerFacts<'_>, as_of: u64, is_read: impl Fn(EntryId) -> bool) -> LimitWrite {
        let limit = StoredLimit { from: Timestamp::default(), ..self.production().limit(NOW, facts, as_of) };
        LimitWrite { limit, seen: self.fence.filter(|id| is_read(*id)), ..LimitWrite::default() }
    }

    /// Takes the store's answer as the process does. Returns the give-back that it appends.
    pub(super) fn answered(
        &mut self,
        facts: &LedgerFacts<'_>,
        used: u64,
        is_read: impl Fn(EntryId) -> bool,
    ) -> Option<Fence> {
        let mut counter = self.production();
        let fence = counter.written(NOW, facts, &LimitAnswer { limit: self.store, floor: 0, used }, is_read);
        self.giving = counter.giving.map(|giving| (giving.fence, giving.appended_at.is_some()));
        self.fence = self.store.fence.map(|fence| fence.id);
        fence
    }

    /// Returns the units that the region may have in a window.
    pub(super) fn live(&self, store_ends_terms: bool, facts: &LedgerFacts<'_>) -> u64 {
        if store_ends_terms {
            return self.store.units_at(NOW);
        }
        self.store.units.min(self.production().limit(NOW, facts, 0).units)
    }

    /// Lets a tick pass. The process's clock may stand still.
    pub(super) fn tick(&mut self, is_own_running: bool) {
        self.admitted = 0;
        self.store = earlier(self.store);
        for known in [&mut self.askings, &mut self.held] {
            for (_, ages) in known.iter_mut() {
                ages.store += 1;
                ages.own += u8::from(is_own_running);
            }
            known.retain(|(_, ages)| ages.own < TERM);
        }
    }

    /// Forgets a limit in the store whose term has ended.
    pub(super) fn forget_ended(&mut self) {
        if self.store.units_at(NOW) == 0 && self.store.until <= NOW {
            self.store = StoredLimit::default();
        }
    }
}

/// Returns a limit after a tick.
pub(super) fn earlier(limit: StoredLimit) -> StoredLimit {
    let until = limit.until.minus_ms(TICK_MS);
    // The model's clocks do not step back, so the beginning of a term makes no difference.
    StoredLimit { from: Timestamp::default(), until: if until > NOW { until } else { Timestamp::default() }, ..limit }
}
