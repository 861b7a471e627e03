//! Bounds of the model: the size of a world, its mistake, and the steps that it may take.

use tollgate_core::messages::ledger::{EntryId, LedgerEntry, LedgerRecord, Terms};

use super::super::ledger::Ledger;
use super::super::region_counter::LedgerFacts;
use super::place::{TERM, TICK_MS};
use super::state::{Log, RULE, RegionState, counter_of};

pub(super) const NAMES: [&str; 3] = ["a", "b", "c"];
/// Age of the last renewal at which a grant may expire, in ticks: the term and a window of one tick.
pub(super) const EXPIRES_AT: u8 = TERM + 1;
/// Writer of the coordinators' entries.
pub(super) const COORDINATOR: u64 = 1_000;

/// Mistake of a shell or an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelMistake {
    GiveBackUnseen,
    FenceIgnored,
    GrantTwice,
    RenewalOverlooked,
    WaitFromWrongInstant,
    LimitDies,
    OtherTerms,
    MirrorOutOfOrder,
    /// A holder's own clock stands still while it is suspended.
    ClockStops,
    /// The ledger grants units that are not free: its readers take the quota for larger by one.
    GrantNotFree,
}

/// Bounds of a world.
#[derive(Clone, Debug)]
pub(super) struct BudgetModel {
    pub(super) regions: usize,
    pub(super) counters: usize,
    pub(super) quota: u64,
    /// Entries after the terms.
    pub(super) entries_max: usize,
    /// Entries that are void, repetitions aside.
    pub(super) void_max: usize,
    /// Requests, renewals and give-backs of all regions.
    pub(super) begun_max: [u8; 3],
    /// Suspensions and restarts of all processes.
    pub(super) suspensions_max: u8,
    pub(super) restarts_max: u8,
    pub(super) ticks_max: u8,
    /// The store ends terms by its own clock, too. If not, a holder's own clock alone ends them.
    pub(super) store_ends_terms: bool,
    pub(super) mistake: Option<ModelMistake>,
}

/// Place of a suspension within a step of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    Never,
    BeforeFirst,
    /// Between the store's answer and the give-back.
    BeforeGiveBack,
}

/// Step of the model. The numbers are those of a region and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Ask(usize, usize, Pause),
    Renew(usize, usize, EntryId, Pause),
    Lower(usize, usize, u64, Pause),
    Write(usize, usize, Pause),
    Resume(usize),
    /// Calls use the limit up. Any fewer units are no more than the limit even once it is lowered, or hold a give-back up as well.
    Admit(usize, usize),
    /// A region reads an entry of its own, and writes its limit.
    Read(usize, Pause),
    /// The mirror repeats the last records.
    ReadAgain(usize, usize),
    /// The mirror exchanges two records.
    ReadSwapped(usize),
    Restart(usize),
    Grant(EntryId, u64),
    Expire(EntryId, EntryId),
    Tick {
        stopped: Option<usize>,
    },
}

impl ModelMistake {
    pub(super) const ALL: [Self; 10] = [
        Self::GiveBackUnseen,
        Self::FenceIgnored,
        Self::GrantTwice,
        Self::RenewalOverlooked,
        Self::WaitFromWrongInstant,
        Self::LimitDies,
        Self::OtherTerms,
        Self::MirrorOutOfOrder,
        Self::ClockStops,
        Self::GrantNotFree,
    ];
}

impl BudgetModel {
    pub(super) fn has(&self, mistake: ModelMistake) -> bool {
        self.mistake == Some(mistake)
    }

    pub(super) fn terms(&self) -> LedgerRecord {
        let floors = NAMES[..self.regions].iter().map(|name| ((*name).into(), 0)).collect();
        let (term_ms, window_ms) = (u64::from(TERM) * TICK_MS, TICK_MS);
        let (rule, quota) = (RULE.into(), self.quota + u64::from(self.has(ModelMistake::GrantNotFree)));
        let terms = Terms { rule, generation: 1, quota, window_ms, term_ms, key_fingerprint: 42, floors };
        LedgerRecord { id: EntryId { writer: COORDINATOR, sequence: 1 }, entry: LedgerEntry::Terms(terms) }
    }

    /// Returns true if an expiry may name a record: the last one of a grant. Others are void, and their ages make no difference.
    pub(super) fn may_expire(&self, log: &Log, record: &LedgerRecord) -> bool {
        let is_last =
            log.truth.counters().any(|(_, _, budget)| budget.grants().iter().any(|held| held.last == record.id));
        let is_timed = matches!(record.entry, LedgerEntry::Grant { .. } | LedgerEntry::Renewal { .. });
        is_last || (is_timed && (self.void_max > 0 || self.has(ModelMistake::RenewalOverlooked)))
    }

    pub(super) fn live(&self, region: &RegionState, place: usize) -> u64 {
        let known = &region.places[place];
        with_facts(&region.ledger, &region.name, place, |facts| known.live(self.store_ends_terms, facts)).unwrap_or(0)
    }
}

/// Calls a function with what a replica says about a counter.
pub(super) fn with_facts<T>(
    ledger: &Ledger,
    region: &str,
    place: usize,
    then: impl FnOnce(&LedgerFacts<'_>) -> T,
) -> Option<T> {
    let (_, terms) = ledger.terms(RULE)?;
    let budget = ledger.budget(RULE, counter_of(place))?;
    Some(then(&LedgerFacts { terms, budget: &budget, region }))
}
