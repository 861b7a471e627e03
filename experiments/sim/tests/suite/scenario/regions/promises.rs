//! Worlds that are made for a promise about what regions can do, and the promises: a region has its units in time.

use fastrand::Rng;
use tollgate_aggregator_engine::budget::division::{Claim, divide};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::LedgerEntry;
use tollgate_sim::{SimRegions, random_stream};

use super::callers::{CallerTimes, counter_of};
use super::plan::{CALM_MS, EXPIRES_MS, RUN_MS, RegionPlan, RegionsPlan, WorldKind, global_rule};
use crate::invariants::START;
use crate::scenario::incident::{Incident, What};
use crate::scenario::rules;

/// Quota, floor of a region, and window of the first rules.
const QUOTA: u64 = 24;
const FLOOR: u64 = 2;
const WINDOW_MS: u64 = 2_000;
/// Time from the end of a cut within which a region is heard, in ms: it asks again after a second, at a tick.
const HEARD_MS: u64 = 1_600;
/// Time within which a region has its part after it was heard again, in ms: a look of the coordinator, two ticks, and the links. It
/// renews grants again after a second, too.
const GRANTED_MS: u64 = 900;
const RENEWED_MS: u64 = GRANTED_MS + 1_000;
/// Time for which its units are compared with its part, in ms.
const COMPARED_MS: u64 = 3_000;
/// Instant at which the rules name other regions, in ms.
const CHANGED_MS: u64 = 10_000;
/// Time from then to the end of the units of a region that is not named any more, beside a window or the expiry of its grants, in ms.
const RETURNED_MS: u64 = 4_000;
/// Instant until which an added region gets units of its callers, in ms, and the least number. A cut ends later.
const ADDED_MS: u64 = CHANGED_MS + 7_000;
const ADDED_UNITS: u64 = 7;

/// Promise about a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// A region that was cut off for longer than its term, and falls to its floor, has its part soon after it is heard again.
    HealedLink,
    /// A region gets units after its link was cut again and again, whatever was lost.
    InterruptedGiver,
    /// Calls that cannot be counted are no missing demand, and those that are counted late are no burst.
    SilentBus,
    /// An added region gets units of its counters although another region holds those of its floor of one counter.
    AddedRegion,
    /// A region that the terms do not name any more gives its units back, or loses them while it is cut off.
    RemovedRegion { is_cut: bool },
}

/// World of a promise, with the instants that it needs.
pub(crate) struct PromisedWorld {
    pub(crate) plan: RegionsPlan,
    promise: Promise,
    /// End of the cut, and the units that an exact division gives the region then.
    healed: Timestamp,
    part: u64,
    heard: Option<Timestamp>,
    /// Most units that the added region has held.
    most_held: u64,
    /// Number of records of the ledger that were looked at.
    read: usize,
}

fn times(from_ms: u64, until_ms: u64, per_s: u64) -> CallerTimes {
    CallerTimes { caller: 0, from_ms, until_ms, per_s }
}

fn plan(seed: u64, regions: &[&[CallerTimes]]) -> RegionsPlan {
    let region = |(index, callers): (usize, &&[CallerTimes])| RegionPlan::calm(seed, index, 1, callers);
    RegionsPlan {
        seed,
        kind: WorldKind::Promise,
        regions: regions.iter().enumerate().map(region).collect(),
        changes: vec![(0, rules::FIRST)],
        global: global_rule(0, regions.len(), false),
        mends_before_expiries: false,
    }
}

impl Promise {
    pub(crate) fn world(self, seed: u64) -> PromisedWorld {
        let mut rng = random_stream(seed, "promise", 0);
        let (mut healed_ms, mut part) = (0, 0);
        let plan = match self {
            Self::HealedLink => {
                (healed_ms, part) = (rng.u64(12_000..20_000), 0);
                healed_link(seed, &mut rng, healed_ms, &mut part)
            }
            Self::InterruptedGiver => interrupted_giver(seed, &mut rng),
            Self::SilentBus => silent_bus(seed, &mut rng),
            Self::AddedRegion => added_region(seed),
            Self::RemovedRegion { is_cut } => removed_region(seed, is_cut),
        };
        PromisedWorld {
            plan,
            promise: self,
            healed: START.plus_ms(healed_ms),
            part,
            heard: None,
            most_held: 0,
            read: 0,
        }
    }
}

/// Either the home wants all that it can get, and the cut ends before the grants of the region have expired, or the home has been idle
/// for some windows at its end.
fn healed_link(seed: u64, rng: &mut Rng, healed_ms: u64, part: &mut u64) -> RegionsPlan {
    let is_contended = rng.bool();
    let cut_ms = if is_contended { rng.u64(3_200..3_500) } else { rng.u64(3_200..9_000) };
    let home_until_ms = if is_contended { RUN_MS } else { healed_ms - rng.u64(3 * WINDOW_MS..5 * WINDOW_MS) };
    let mut plan = plan(seed, &[&[times(0, home_until_ms, 16)], &[times(0, RUN_MS, 24)]]);
    plan.regions[1].mirror.delay_ms = rng.u64(1..40);
    plan.regions[1].cuts.push((healed_ms - cut_ms, healed_ms));
    let home = Claim { floor: FLOOR, wants: if is_contended { QUOTA } else { 0 } };
    *part = divide(QUOTA, &[home, Claim { floor: FLOOR, wants: QUOTA }])[1];
    plan
}

fn interrupted_giver(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let (mut first, mut second) = (Vec::new(), vec![times(CALM_MS, RUN_MS, 12)]);
    let mut from_ms = 0;
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(1_000..6_000)).min(CALM_MS);
        if rng.bool() { &mut first } else { &mut second }.push(times(from_ms, until_ms, 12));
        from_ms = until_ms;
    }
    let mut plan = plan(seed, &[&first, &second]);
    let mut from_ms = rng.u64(2_000..5_000);
    while from_ms < CALM_MS {
        let until_ms = (from_ms + rng.u64(200..8_000)).min(CALM_MS);
        plan.regions[1].cuts.push((from_ms, until_ms));
        from_ms = until_ms + rng.u64(200..5_000);
    }
    plan.regions[0].members.coordinator_permille = 500;
    plan.regions[0].members.suspended_ms_max = 1_500;
    plan
}

fn silent_bus(seed: u64, rng: &mut Rng) -> RegionsPlan {
    let always: &[CallerTimes] = &[times(0, RUN_MS, 20)];
    let mut plan = plan(seed, &[always, always]);
    let mut at_ms = 6_000;
    while at_ms < CALM_MS {
        let lasts_ms = rng.u64(200..8_000).min(CALM_MS - at_ms);
        plan.regions[1].incidents.push(Incident { at_ms, lasts_ms, what: What::BusFails });
        at_ms += lasts_ms + rng.u64(1_000..5_000);
    }
    plan
}

fn added_region(seed: u64) -> RegionsPlan {
    let other = CallerTimes { caller: 1, ..times(0, RUN_MS, 4) };
    let mut plan = plan(seed, &[&[times(0, RUN_MS, 4)], &[times(0, RUN_MS, 20)], &[other]]);
    plan.global.sharing = [2, 3, 3];
    plan.changes.push((CHANGED_MS, rules::FIRST + 1));
    plan.regions[1].cuts.push((CHANGED_MS - 200, CHANGED_MS + 8_000));
    plan
}

fn removed_region(seed: u64, is_cut: bool) -> RegionsPlan {
    let always: &[CallerTimes] = &[times(0, RUN_MS, 20)];
    let mut plan = plan(seed, &[always, always]);
    plan.global.sharing = [2, 1, 1];
    plan.changes.push((CHANGED_MS, rules::FIRST + 1));
    plan.regions[1].cuts.extend(is_cut.then_some((CHANGED_MS - 200, CALM_MS)));
    plan
}

impl PromisedWorld {
    /// Checks the promise at an instant.
    pub(crate) fn check(&mut self, world: &SimRegions<'_>) -> Result<(), String> {
        let at_ms = world.now().ms_since(START);
        let held = |region: usize, caller: u8| {
            let budget = world.ledger().state().budget(rules::GLOBAL, counter_of(caller));
            budget.map_or(0, |budget| budget.held(self.plan.regions[region].settings.region))
        };
        let limit = |region: usize| {
            world.regions()[region].store().budget(rules::GLOBAL, counter_of(0), world.now()).unwrap_or(0)
        };
        let is_end = at_ms + 500 >= RUN_MS;
        let broken = match self.promise {
            Promise::HealedLink => return self.check_healed(world, limit(1)),
            Promise::InterruptedGiver => is_end && held(1, 0) < QUOTA * 3 / 4,
            Promise::SilentBus => at_ms >= 5_500 && limit(0).min(limit(1)) < QUOTA / 2 - 1,
            Promise::AddedRegion => {
                self.most_held = self.most_held.max(held(2, 1));
                at_ms >= ADDED_MS && self.most_held < ADDED_UNITS || is_end && held(2, 0) != FLOOR
            }
            Promise::RemovedRegion { is_cut } => {
                let returned_ms = CHANGED_MS + RETURNED_MS + if is_cut { EXPIRES_MS } else { WINDOW_MS };
                let kept = if is_cut { FLOOR } else { 0 };
                at_ms >= returned_ms && held(1, 0) > kept || is_end && held(1, 0) > 0
            }
        };
        let (held, limits) = ([held(0, 0), held(1, 0)], [limit(0), limit(1)]);
        if broken {
            Err(format!("{:?} after {at_ms} ms: {held:?} held, limits {limits:?}", self.promise))
        } else {
            Ok(())
        }
    }

    fn check_healed(&mut self, world: &SimRegions<'_>, limit: u64) -> Result<(), String> {
        let region = self.plan.regions[1].settings.region;
        let budget = world.ledger().state().counter(counter_of(0));
        let own = |entry: &LedgerEntry| match entry {
            LedgerEntry::Request(request) => *request.region == *region,
            LedgerEntry::Renewal { grant, .. } => budget
                .is_some_and(|budget| budget.grants().iter().any(|held| held.id == *grant && *held.region == *region)),
            _ => false,
        };
        let records = &world.ledger().records()[self.read..];
        let heard = records.iter().find(|(at, record)| *at >= self.healed && own(&record.entry)).map(|(at, _)| *at);
        self.read = world.ledger().records().len();
        self.heard = self.heard.or(heard);
        let now = world.now();
        match self.heard {
            None if now.ms_since(self.healed) > HEARD_MS => Err("idle units: the region is not heard".to_owned()),
            Some(heard) => {
                let (since_ms, back_ms) =
                    (now.ms_since(heard), if self.part < QUOTA - FLOOR { RENEWED_MS } else { GRANTED_MS });
                let is_due = since_ms > back_ms && since_ms < back_ms + COMPARED_MS;
                if !is_due || limit >= self.part {
                    return Ok(());
                }
                Err(format!("idle units: {limit} of {} units {since_ms} ms after it was heard", self.part))
            }
            None => Ok(()),
        }
    }
}
