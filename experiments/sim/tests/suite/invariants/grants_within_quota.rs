//! grants-within-quota: the regions hold and admit no more than the quota together.
//!
//! At each admission under a rule with a global scope, and at each write of a limit, the sum over the regions of the larger of the
//! live budget and the units admitted in the last window is at most the quota, or what the regions still hold of a larger one. No
//! entry of the ledger gives them more, and all its readers have the state that its records mean.
//!
//! An admission has the store time of its charge, or of its decision if a lease paid for it. It counts in the window that its counter
//! followed, or in that of the terms if that has become shorter. Admissions without the store do not count: that region's outage has
//! a bound of its own. A region whose store has lost data counts with at most what it holds by the ledger, until all limits from
//! before the loss have ended. So does one whose store's clock has stepped back, until the aggregator that wrote the limit has
//! seen the step, or until the limit has ended by the clock that stepped. Its admissions do not count meanwhile, nor until agents have noticed the step or the loss.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use tollgate::{LocalAnswer, RuleSet, Source};
use tollgate_aggregator_engine::budget::ledger::Ledger;
use tollgate_aggregator_engine::budget::region::RegionBudgets;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::ledger::{LedgerEntry, Terms};
use tollgate_core::rules::Scope;
use tollgate_sim::{AnsweredCall, Observation, SimNode, SimRegions, Ticket};

use super::facts::Facts;

/// Time after which agents have noticed a step of the store's clock or a loss, in ms.
const NOTICED_MS: u64 = 3_000;
/// Time from the end of a term to the end of its limit in the store, at most, in ms.
const MARGIN_MS: u64 = 1_000;

/// Units of the regions.
pub(crate) struct GrantsWithinQuota {
    facts: Facts,
    /// Name of the rule.
    rule: &'static str,
    /// Terms as they are proposed.
    proposed: Vec<Terms>,
    regions: Vec<RegionUnits>,
    /// State of the ledger after the records that were looked at, its digests by its lengths, and the units of all regions.
    ledger: Ledger,
    len: usize,
    digests: Vec<u64>,
    held: BTreeMap<CounterId, u64>,
    /// Number of admissions that were compared.
    pub(crate) compared: usize,
}

/// Units of one region.
#[derive(Default)]
struct RegionUnits {
    name: &'static str,
    /// Store times of charges, and the widths of their windows.
    charged: HashMap<(Ticket, CounterId), (Timestamp, u64)>,
    admitted: HashMap<CounterId, VecDeque<AdmittedUnit>>,
    /// Instant of the last step or loss.
    shaken: Option<Timestamp>,
    /// Instant of the last step back, and the time from it to the end of all limits from before it, in ms.
    stepped_back: Option<(Timestamp, u64)>,
    lost: Option<Timestamp>,
    /// Instants at which the store showed the last times that aggregators know.
    known: HashMap<usize, Timestamp>,
    /// Aggregators that have written the last limits.
    writers: HashMap<CounterId, usize>,
    /// Instants from which the limits of an aggregator are those of one that knew the store's time of another instant.
    renewed: HashMap<usize, (Timestamp, Timestamp)>,
}

#[derive(Clone, Copy)]
struct AdmittedUnit {
    at: Timestamp,
    width_ms: u64,
    units: u64,
}

impl GrantsWithinQuota {
    /// Returns the bookkeeping of regions under a rule with a global scope.
    pub(crate) fn new(rules: Vec<RuleSet>, rule: &'static str, proposed: Vec<Terms>, names: &[&'static str]) -> Self {
        let region = |name: &&'static str| RegionUnits { name, ..RegionUnits::default() };
        Self {
            facts: Facts::new(rules, usize::MAX),
            rule,
            proposed,
            regions: names.iter().map(region).collect(),
            ledger: Ledger::default(),
            len: 0,
            digests: vec![digest(&Ledger::default())],
            held: BTreeMap::new(),
            compared: 0,
        }
    }

    /// Looks at the new records of the ledger.
    pub(crate) fn read(&mut self, world: &SimRegions<'_>) -> Result<(), String> {
        for (_, record) in &world.ledger().records()[self.len..] {
            let len = self.ledger.len();
            // A void entry changes nothing.
            let _ = self.ledger.apply(record);
            if self.ledger.len() > len {
                self.digests.push(digest(&self.ledger));
            }
            if let LedgerEntry::Terms(_) = record.entry {
                let width_ms = self.terms().map_or(u64::MAX, |terms| terms.window_ms);
                let admitted = self.regions.iter_mut().flat_map(|region| region.admitted.values_mut()).flatten();
                admitted.for_each(|unit| unit.width_ms = unit.width_ms.min(width_ms));
            }
            self.check_held()?;
        }
        self.len = world.ledger().records().len();
        Ok(())
    }

    /// Takes the new observations of a region.
    pub(crate) fn observe(&mut self, world: &SimRegions<'_>, region: usize) -> Result<(), String> {
        let (now, sim, kept_ms) = (world.now(), &world.regions()[region], self.kept_ms());
        for observation in sim.new_observations() {
            let units = &mut self.regions[region];
            match observation {
                Observation::Executed { ticket, charges, store_time, answer: Ok(results), limits, .. } => {
                    for ((charge, result), limit) in charges.iter().zip(results).zip(limits) {
                        if charge.budget.is_some() && result.charged && !result.repeated {
                            let width_ms = limit.unwrap_or(charge.limit).window.width_ms();
                            units.charged.insert((*ticket, charge.counter), (*store_time, width_ms));
                        }
                    }
                }
                Observation::Answered(answered) if answered.is_admitted => self.admitted(world, region, answered)?,
                Observation::StoreLost(_) => {
                    (units.shaken, units.lost) = (Some(now), Some(now));
                    units.admitted.clear();
                }
                Observation::StoreClockStepped { by_ms, .. } => {
                    units.shaken = Some(now);
                    if *by_ms < 0 {
                        units.stepped_back = Some((now, kept_ms + by_ms.unsigned_abs()));
                    }
                    units.admitted.clear();
                }
                Observation::StoreTimeKnown(aggregator, read) => {
                    units.known.insert(*aggregator, *read);
                }
                Observation::BudgetsCompared(aggregator, written) => {
                    let known = units.known.get(aggregator).copied();
                    units.renewed.extend(known.map(|known| (*aggregator, (known, *written))));
                }
                Observation::Ended(SimNode::Aggregator(aggregator)) => {
                    units.known.remove(aggregator);
                    units.renewed.remove(aggregator);
                    units.writers.retain(|_, writer| writer != aggregator);
                }
                Observation::LimitWritten { counter, aggregator } => {
                    units.writers.insert(*counter, *aggregator);
                    self.check(world, *counter)?;
                }
                Observation::LedgerRead(aggregator) => {
                    let budgets = sim.aggregators()[*aggregator].budgets();
                    let Some(ledger) = budgets.map(RegionBudgets::ledger) else { continue };
                    let expected = usize::try_from(ledger.len()).ok().and_then(|len| self.digests.get(len));
                    if expected != Some(&digest(ledger)) {
                        let (name, len) = (self.regions[region].name, ledger.len());
                        return Err(format!("grants-within-quota: {name} has another state of {len} entries"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Enters the units of a call, and checks its counters under rules with a global scope.
    fn admitted(&mut self, world: &SimRegions<'_>, region: usize, answered: &AnsweredCall<'_>) -> Result<(), String> {
        let (sim, kept_ms) = (&world.regions()[region], self.kept_ms());
        for applied in self.facts.applied(answered.generation, &answered.call) {
            if applied.rule.scope != Scope::Global {
                continue;
            }
            let units = &mut self.regions[region];
            let charged = answered.ticket.and_then(|ticket| units.charged.get(&(ticket, applied.counter)).copied());
            let (at, width_ms) = match answered.decided_by(applied.counter) {
                (_, Some(LocalAnswer::Lease)) => (sim.store().time(world.now()), applied.policy.window.width_ms()),
                (Source::Store, _) if charged.is_some() => charged.unwrap_or_default(),
                _ => continue,
            };
            let is_shaken = units.shaken.is_some_and(|since| world.now().ms_since(since) < NOTICED_MS);
            if is_shaken || units.is_excused(applied.counter, world.now(), kept_ms) {
                continue;
            }
            let unit = AdmittedUnit { at, width_ms, units: applied.cost };
            units.admitted.entry(applied.counter).or_default().push_back(unit);
            self.compared += 1;
            self.check(world, applied.counter)?;
        }
        Ok(())
    }

    /// Checks that the regions hold no more than the quota as it was proposed, or than they held before.
    fn check_held(&mut self) -> Result<(), String> {
        let quota = self.terms().map_or(0, |terms| terms.quota);
        for (counter, _, budget) in self.ledger.counters() {
            let held = budget.held_by_all();
            let known = self.held.entry(counter).or_insert(quota);
            if held > quota.max(*known) {
                return Err(format!("grants-within-quota: the ledger gives the regions {held} of {quota} units"));
            }
            *known = held;
        }
        let ledger = &self.ledger;
        self.held.retain(|counter, _| ledger.counter(*counter).is_some());
        Ok(())
    }

    /// Checks the sum over the regions.
    fn check(&mut self, world: &SimRegions<'_>, counter: CounterId) -> Result<(), String> {
        let Some(Terms { quota, .. }) = self.terms() else { return Ok(()) };
        let (ceiling, kept_ms) = ((*quota).max(self.held.get(&counter).copied().unwrap_or(0)), self.kept_ms());
        let (rule, now) = (self.rule, world.now());
        let Some(budget) = self.ledger.budget(rule, counter) else { return Ok(()) };
        let mut parts = Vec::new();
        for (units, sim) in self.regions.iter_mut().zip(world.regions()) {
            let held = budget.held(units.name);
            let live = sim.store().budget(rule, counter, now);
            let admitted = units.in_window(counter, sim.store().time(now));
            let part = live.unwrap_or(held).max(admitted);
            let is_excused = live.is_none() || units.is_excused(counter, now, kept_ms);
            parts.push(if is_excused { part.min(held) } else { part });
        }
        let sum: u64 = parts.iter().sum();
        if sum > ceiling {
            return Err(format!("grants-within-quota: the regions have {parts:?} of {ceiling} units"));
        }
        Ok(())
    }

    /// Returns the time after which no limit from before an instant is in force, in ms.
    fn kept_ms(&self) -> u64 {
        let kept = self.proposed.iter().map(|terms| terms.window_ms + terms.term_ms);
        kept.max().unwrap_or(0) + MARGIN_MS
    }

    /// Returns the terms in force, as they were proposed.
    fn terms(&self) -> Option<&Terms> {
        let (_, known) = self.ledger.terms(self.rule)?;
        self.proposed.iter().find(|terms| terms.generation == known.generation)
    }
}

impl RegionUnits {
    /// Returns the units of a counter that were admitted in the last window.
    fn in_window(&mut self, counter: CounterId, store_now: Timestamp) -> u64 {
        let Some(admitted) = self.admitted.get_mut(&counter) else { return 0 };
        admitted.retain(|unit| unit.at.plus_ms(unit.width_ms) > store_now);
        admitted.iter().map(|unit| unit.units).sum()
    }

    /// Returns true while limits in the store may last longer than their terms, or be those from before a loss.
    fn is_excused(&self, counter: CounterId, now: Timestamp, kept_ms: u64) -> bool {
        let writer = self.writers.get(&counter).and_then(|writer| self.renewed.get(writer));
        let is_renewed = |since: Timestamp| writer.is_some_and(|(known, from)| *known >= since && *from < now);
        self.lost.is_some_and(|since| now.ms_since(since) < kept_ms)
            || self.stepped_back.is_some_and(|(since, ms)| now.ms_since(since) < ms && !is_renewed(since))
    }
}

fn digest(ledger: &Ledger) -> u64 {
    let mut hasher = DefaultHasher::new();
    ledger.hash(&mut hasher);
    hasher.finish()
}
