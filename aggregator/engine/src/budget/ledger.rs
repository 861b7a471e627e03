//! The ledger: the units that each region holds, as a function of the entries in their order.
//!
//! Every reader applies the same entries and gets the same state. The state knows no time: terms are measured by those who
//! write. A void entry changes nothing, and each reader finds the same entries void. So a coordinator that is doubled, or late, or
//! knows an old state, wastes entries and never a unit: a grant counts only if its units are free at its place.
//!
//! Repetitions are void by the numbers of their writer. A mirror that has begun again may repeat a part of the ledger, in its order.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{BudgetRequest, EntryId, LedgerEntry, LedgerRecord, Region, Terms};

use super::counter_budget::{CounterBudget, Floors, takes_part};
use super::seen_entries::SeenEntries;
use super::void::Void;

/// Maximum number of counters with grants or requests. Requests for others are void.
pub const COUNTERS_LEN_MAX: usize = 100_000;

/// Units that each region holds of each counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    rules: BTreeMap<Arc<str>, RuleBudgets>,
    /// Counters that an entry names and that hold something since.
    counters: BTreeMap<CounterId, RuleCounter>,
    seen: SeenEntries,
    /// Number of entries that are no repetitions.
    len: u64,
    /// Writer of the first entry.
    number: u64,
}

/// Terms of one rule, and the floors of its counters that no entry names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RuleBudgets {
    id: EntryId,
    terms: Terms,
    floors: Floors,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct RuleCounter {
    rule: Arc<str>,
    budget: CounterBudget,
}

impl Ledger {
    /// Applies the next record.
    ///
    /// # Errors
    /// If the entry is void. It changes nothing then but the length of the ledger.
    pub fn apply(&mut self, record: &LedgerRecord) -> Result<(), Void> {
        self.see(record)?;
        let id = record.id;
        match &record.entry {
            LedgerEntry::Terms(terms) => self.set_terms(id, terms),
            LedgerEntry::Request(request) => self.ask(id, request),
            LedgerEntry::Grant { counter, request, units } => self.grant(id, *counter, *request, *units),
            LedgerEntry::Renewal { counter, grant, wants } => {
                self.change(*counter, |budget, terms| budget.renew(*grant, id, *wants, terms))
            }
            LedgerEntry::GiveBack { counter, grant, keeps } => {
                self.change(*counter, |budget, _| if budget.keep(*grant, *keeps) { Ok(()) } else { Err(Void::Ended) })
            }
            LedgerEntry::FloorGiveBack { terms, region } => self.lower_floors(*terms, region),
            LedgerEntry::Expiry { counter, grant, last } => {
                self.change(*counter, |budget, _| match budget.expire(*grant, *last) {
                    Some(true) => Ok(()),
                    Some(false) => Err(Void::Renewed),
                    None => Err(Void::Ended),
                })
            }
        }
    }

    /// Returns the number of entries that are no repetitions. It is the same for every reader at the same entry.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns a number that a ledger which is created again does not have: the writer of its first entry. Mirrors have the same one.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if no entry was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if an entry is in the ledger, void or not: a give-back, or an entry whose writer has appended it or a later one.
    #[must_use]
    pub fn contains(&self, id: EntryId) -> bool {
        self.seen.contains(id)
    }

    /// Returns the terms of a rule and their entry.
    #[must_use]
    pub fn terms(&self, rule: &str) -> Option<(EntryId, &Terms)> {
        self.rules.get(rule).map(|rule| (rule.id, &rule.terms))
    }

    /// Returns the budget of a counter of a rule; none without terms.
    #[must_use]
    pub fn budget(&self, rule: &str, counter: CounterId) -> Option<CounterBudget> {
        let named = self.counters.get(&counter).map(|named| named.budget.clone());
        named.or_else(|| self.rules.get(rule).map(|rule| CounterBudget::new(rule.floors.clone())))
    }

    /// Returns the budget of a counter that holds more than its floors or waits for a grant.
    #[must_use]
    pub fn counter(&self, counter: CounterId) -> Option<&CounterBudget> {
        self.counters.get(&counter).map(|named| &named.budget)
    }

    /// Returns the counters that hold more than their floors or wait for a grant, with their terms.
    pub fn counters(&self) -> impl Iterator<Item = (CounterId, &Terms, &CounterBudget)> {
        let terms = |named: &RuleCounter| self.rules.get(&named.rule).map(|rule| &rule.terms);
        self.counters.iter().filter_map(move |(counter, named)| Some((*counter, terms(named)?, &named.budget)))
    }

    /// Returns the terms of all rules.
    pub fn rules(&self) -> impl Iterator<Item = &Terms> {
        self.rules.values().map(|rule| &rule.terms)
    }

    /// Returns the units that are reserved for a region of every counter of a rule.
    #[must_use]
    pub fn floor_of_all(&self, rule: &str, region: &str) -> u64 {
        self.floors_of(rule, region).min().unwrap_or(0)
    }

    /// Returns the units that are reserved for a region of any counter of a rule.
    #[must_use]
    pub(super) fn floor_of_any(&self, rule: &str, region: &str) -> u64 {
        self.floors_of(rule, region).max().unwrap_or(0)
    }

    /// Returns the units of each counter that stay reserved for regions which the terms do not name any more, by region. They are given
    /// back by an aggregator of the region.
    #[must_use]
    pub fn floors_of_removed(&self, rule: &str) -> BTreeMap<Region, u64> {
        let Some(known) = self.rules.get(rule) else { return BTreeMap::new() };
        let named = self.counters.values().filter(|named| &*named.rule == rule).map(|named| named.budget.floors());
        let mut removed = Floors::new();
        for (region, units) in std::iter::once(&known.floors).chain(named).flatten() {
            if *units > 0 && !takes_part(&known.terms, region) {
                let most = removed.entry(region.clone()).or_default();
                *most = units.max(most).to_owned();
            }
        }
        removed
    }

    /// Returns the floors of a region: that of the counters without an entry, and those of the others.
    fn floors_of(&self, rule: &str, region: &str) -> impl Iterator<Item = u64> {
        let named = self.counters.values().filter(move |named| &*named.rule == rule);
        let untouched = self.rules.get(rule).map(|rule| rule.floors.get(region).copied().unwrap_or(0));
        untouched.into_iter().chain(named.map(move |named| named.budget.floor(region)))
    }

    fn see(&mut self, record: &LedgerRecord) -> Result<(), Void> {
        if self.contains(record.id) {
            return Err(Void::Repeated);
        }
        if self.is_empty() {
            self.number = record.id.writer;
        }
        self.len += 1;
        self.seen.add(record, self.len);
        Ok(())
    }

    fn set_terms(&mut self, id: EntryId, terms: &Terms) -> Result<(), Void> {
        let floors = terms.floors.iter().try_fold(0_u64, |sum, (_, units)| sum.checked_add(*units));
        if floors.is_none_or(|floors| floors > terms.quota) {
            return Err(Void::FloorsOverQuota);
        }
        let before = self.rules.get(&terms.rule);
        if before.is_some_and(|before| terms.generation <= before.terms.generation) {
            return Err(Void::OtherTerms);
        }
        let mut untouched = CounterBudget::new(before.map(|before| before.floors.clone()).unwrap_or_default());
        untouched.raise_floors(terms);
        let rule = RuleBudgets { id, terms: terms.clone(), floors: untouched.floors().clone() };
        self.rules.insert(terms.rule.clone(), rule);
        self.counters.values_mut().filter(|named| named.rule == terms.rule).for_each(|named| {
            named.budget.lengthen_windows(id, terms);
            named.budget.raise_floors(terms);
        });
        self.forget_untouched(&terms.rule);
        Ok(())
    }

    fn ask(&mut self, id: EntryId, request: &BudgetRequest) -> Result<(), Void> {
        let BudgetRequest { terms, counter, region, wants } = request;
        let rule = self.rules.values().find(|rule| rule.id == *terms).ok_or(Void::OtherTerms)?;
        if !takes_part(&rule.terms, region) {
            return Err(Void::UnknownRegion);
        }
        if self.counters.len() >= COUNTERS_LEN_MAX && !self.counters.contains_key(counter) {
            return Err(Void::TooMany);
        }
        let new = || RuleCounter { rule: rule.terms.rule.clone(), budget: CounterBudget::new(rule.floors.clone()) };
        self.counters.entry(*counter).or_insert_with(new).budget.ask(region.clone(), *wants, id);
        Ok(())
    }

    fn grant(&mut self, id: EntryId, counter: CounterId, request: EntryId, units: u64) -> Result<(), Void> {
        let rules = &self.rules;
        let named = self.counters.get_mut(&counter).ok_or(Void::Answered)?;
        let terms = &rules.get(&named.rule).ok_or(Void::OtherTerms)?.terms;
        let budget = &mut named.budget;
        let region = budget.pending().find(|(_, pending)| *pending == request).ok_or(Void::Answered)?.0.clone();
        if units > 0 && !takes_part(terms, &region) {
            return Err(Void::UnknownRegion);
        }
        if units > budget.free(terms.quota) {
            return Err(Void::NotFree);
        }
        if units > 0 && !budget.add((id, request), region, units, terms) {
            return Err(Void::TooMany);
        }
        budget.answer(request);
        self.forget_if_untouched(counter);
        Ok(())
    }

    fn change(
        &mut self,
        counter: CounterId,
        change: impl FnOnce(&mut CounterBudget, &Terms) -> Result<(), Void>,
    ) -> Result<(), Void> {
        let named = self.counters.get_mut(&counter).ok_or(Void::Ended)?;
        let terms = &self.rules.get(&named.rule).ok_or(Void::OtherTerms)?.terms;
        change(&mut named.budget, terms)?;
        named.budget.raise_floors(terms);
        self.forget_if_untouched(counter);
        Ok(())
    }

    fn lower_floors(&mut self, terms: EntryId, region: &Region) -> Result<(), Void> {
        let rule = self.rules.values_mut().find(|rule| rule.id == terms).ok_or(Void::OtherTerms)?;
        let mut untouched = CounterBudget::new(rule.floors.clone());
        untouched.lower_floor(region, &rule.terms);
        untouched.raise_floors(&rule.terms);
        rule.floors = untouched.floors().clone();
        for named in self.counters.values_mut().filter(|named| named.rule == rule.terms.rule) {
            named.budget.lower_floor(region, &rule.terms);
            named.budget.raise_floors(&rule.terms);
        }
        let name = rule.terms.rule.clone();
        self.forget_untouched(&name);
        Ok(())
    }

    /// Forgets the counters of a rule that hold no more than its floors. Their floors may have been behind those of the rule.
    fn forget_untouched(&mut self, rule: &str) {
        let Some(rule) = self.rules.get(rule) else { return };
        self.counters.retain(|_, named| named.rule != rule.terms.rule || !named.budget.is_untouched(&rule.floors));
    }

    fn forget_if_untouched(&mut self, counter: CounterId) {
        let Some(named) = self.counters.get_mut(&counter) else { return };
        named.budget.forget_wants();
        let floors = self.rules.get(&named.rule).map(|rule| &rule.floors);
        if floors.is_some_and(|floors| named.budget.is_untouched(floors)) {
            self.counters.remove(&counter);
        }
    }
}
