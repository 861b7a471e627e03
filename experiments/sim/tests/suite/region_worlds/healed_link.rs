//! Worlds in which a region is cut off for longer than its term and is heard again while units are free for it.
//!
//! The link has the delays of the random world up to 400 ms in each direction, and loses nothing while it is connected: a longer delay
//! or a repetition takes a part of the 3 s by itself. Regions look at their budgets as often as in production.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use fastrand::Rng;
use tollgate_aggregator_engine::budget::division::{Claim, divide};
use tollgate_core::messages::ledger::{EntryId, LedgerEntry};
use tollgate_sim::regions::{CallerPlan, LinkFaults, ProcessFaults, RegionsOutcome, RegionsSettings};

use super::{NAMES, directed, region, terms};

/// Interval of production in which budgets are compared with the demand, in ms.
const TICK_MS: u64 = 200;
/// Instant at which the link is cut, at the earliest, in ms.
const CUT_MS: u64 = 40_000;
const WINDOW_MS: u64 = 10_000;
const QUOTA: u64 = 60;
/// Time from the end of the cut within which the region is heard, in ms: it asks again after a second, at a tick, over the link.
const HEARD_MS: u64 = 1_600;
/// Time within which a region has its part after it was heard again, in ms.
const BACK_MS: u64 = 3_000;
/// Time for which its admissions are compared, in ms.
const COMPARED_MS: u64 = 3 * WINDOW_MS;

/// A world, and what is expected of it.
pub(crate) struct HealedLink {
    pub(crate) settings: RegionsSettings,
    /// Number of the region that is cut off, and the end of the cut, in ms.
    region: usize,
    healed_ms: u64,
    /// Units that an exact division of the quota gives it.
    part: u64,
}

/// Thing that a region lacks after it was heard again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It is not heard in time.
    NotHeard,
    /// Its store admits less than its part.
    Limit { at_ms: u64, limit: u64, part: u64 },
    /// It has admitted less than an exact limiter.
    Admissions { admitted: u64, exact: u64 },
}

/// Returns the world of a seed. Either the others want all that they can get, and the cut ends before the grants of the region have
/// expired, or they have been idle for a window at its end.
pub(crate) fn healed_link(seed: u64) -> HealedLink {
    let mut rng = Rng::with_seed(seed);
    let count = rng.usize(2..=NAMES.len());
    let cut_off = rng.usize(1..count);
    let floor = rng.u64(0..=QUOTA / count as u64);
    let is_contended = rng.bool();
    let from_ms = CUT_MS + rng.u64(0..20_000);
    let healed_ms = from_ms + if is_contended { rng.u64(12_500..14_500) } else { rng.u64(12_500..60_000) };
    let run_ms = healed_ms + 2 * BACK_MS + COMPARED_MS;
    // More than the whole quota in each window.
    let per_minute = |rng: &mut Rng| rng.u64(600..1_200);
    let mut claims = Vec::new();
    let mut regions = Vec::new();
    for (number, name) in NAMES.iter().take(count).enumerate() {
        let plan = |from_ms, until_ms, per_minute| CallerPlan { counter: 0, from_ms, until_ms, per_minute };
        let wants = number == cut_off || is_contended && rng.bool();
        let callers = if number == cut_off && is_contended || wants && number != cut_off {
            vec![plan(0, run_ms, per_minute(&mut rng))]
        } else if number == cut_off {
            // It may have given units back at about the cut.
            let begins_ms = if rng.bool() { 0 } else { rng.u64(from_ms..healed_ms - 3_000) };
            let early = plan(0, from_ms - rng.u64(0..15_000), per_minute(&mut rng));
            vec![early, plan(begins_ms, run_ms, per_minute(&mut rng))]
        } else if is_contended || rng.bool() {
            Vec::new()
        } else {
            vec![plan(0, healed_ms - rng.u64(WINDOW_MS..25_000), per_minute(&mut rng))]
        };
        claims.push(Claim { floor, wants: if wants { QUOTA } else { 0 } });
        let mut settings = region(name, rng.usize(1..=2), callers);
        settings.link = LinkFaults {
            delay_ms: if number == 0 { 1 } else { rng.u64(1..200) },
            jitter_ms: if number == 0 { 0 } else { [0, 50, 200][rng.usize(..3)] },
            doubled_permille: rng.u64(0..100),
            repeated_permille: if number == 0 { 0 } else { rng.u64(0..100) },
            ..LinkFaults::default()
        };
        if number == cut_off {
            settings.link.cuts.push((from_ms, healed_ms));
        }
        regions.push(settings);
    }
    let mut regions = regions.into_iter();
    let (first, second) = regions.next().zip(regions.next()).expect("two regions");
    let mut settings = directed(seed, first, second);
    settings.regions.extend(regions);
    settings.terms[0].terms = terms(QUOTA, floor, &NAMES[..count]);
    settings.coordinator_faults = ProcessFaults::default();
    (settings.tick_ms, settings.run_ms, settings.calm_from_ms) = (TICK_MS, run_ms, run_ms);
    HealedLink { settings, region: cut_off, healed_ms, part: divide(QUOTA, &claims)[cut_off] }
}

impl HealedLink {
    /// Returns what the region lacks in a run; none if it had its part in time.
    pub(crate) fn lack(&self, outcome: &RegionsOutcome) -> Option<Lack> {
        let heard_ms = self.heard_ms(outcome).filter(|heard_ms| heard_ms - self.healed_ms <= HEARD_MS);
        let Some(heard_ms) = heard_ms else { return Some(Lack::NotHeard) };
        let compared = heard_ms + BACK_MS..heard_ms + BACK_MS + COMPARED_MS;
        for (second, samples) in (1..).zip(&outcome.budgets) {
            let (at_ms, limit) = (1_000 * second, samples[self.region].limit);
            if compared.contains(&at_ms) && limit < self.part {
                return Some(Lack::Limit { at_ms, limit, part: self.part });
            }
        }
        let (admitted, exact) = self.admitted(outcome, &compared);
        (admitted < exact).then_some(Lack::Admissions { admitted, exact })
    }

    /// Returns the admissions of the region in a time, and those of an exact limiter with its part that goes on from the window before.
    fn admitted(&self, outcome: &RegionsOutcome, compared: &Range<u64>) -> (u64, u64) {
        let of_region = |of: &[(u64, usize)], during: &Range<u64>| -> VecDeque<u64> {
            let own = of.iter().filter(|(at_ms, region)| *region == self.region && during.contains(at_ms));
            own.map(|(at_ms, _)| *at_ms).collect()
        };
        let (admitted, calls) = (&outcome.admitted[0], &outcome.calls[0]);
        let mut window = of_region(admitted, &(compared.start - WINDOW_MS..compared.start));
        let mut exact = 0;
        for at_ms in of_region(calls, compared) {
            while window.front().is_some_and(|oldest_ms| at_ms - oldest_ms >= WINDOW_MS) {
                window.pop_front();
            }
            if (window.len() as u64) < self.part {
                window.push_back(at_ms);
                exact += 1;
            }
        }
        (of_region(admitted, compared).len() as u64, exact)
    }

    /// Returns the instant of the first entry of the region after the cut, in ms.
    fn heard_ms(&self, outcome: &RegionsOutcome) -> Option<u64> {
        let name = self.settings.regions[self.region].name;
        let mut askers: BTreeMap<EntryId, &str> = BTreeMap::new();
        for (at_ms, record) in &outcome.ledger {
            let asker = match &record.entry {
                LedgerEntry::Request(request) => Some(&*request.region),
                LedgerEntry::Grant { request, .. } => askers.get(request).copied(),
                LedgerEntry::Renewal { grant, .. } | LedgerEntry::GiveBack { grant, .. } => askers.get(grant).copied(),
                LedgerEntry::FloorGiveBack { region, .. } => Some(&**region),
                LedgerEntry::Terms(_) | LedgerEntry::Expiry { .. } => None,
            };
            askers.extend(asker.map(|asker| (record.id, asker)));
            let is_own = asker == Some(name) && !matches!(record.entry, LedgerEntry::Grant { .. });
            if is_own && *at_ms >= self.healed_ms {
                return Some(*at_ms);
            }
        }
        None
    }
}
