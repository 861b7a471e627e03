//! Properties that hold at every step of a simulation. Each one is checked by its own plain bookkeeping, which shares
//! no code with the parts that it checks.

mod facts;
mod limits_in_force;
mod held_units;
mod answers;
mod never_over;
mod admitted;
mod counted_each;
mod charged;
mod leases;
mod true_denial;
mod degraded;
mod store_time;
mod recount;
mod exactly_counted;
mod hand_over;
mod accounts;
mod ledger;
mod capped;
mod last_good;
mod wake_ups;
mod notices;
mod members;
mod forgeries;
mod rollups;
mod grants_within_quota;

use std::collections::BTreeMap;

use tollgate::{RuleSet, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Generation;
use tollgate_sim::{AnsweredCall, Observation, Simulation};

use admitted::Admitted;
use answers::Answers;
use capped::Capped;
use charged::Charged;
use counted_each::CountedEach;
use degraded::Degraded;
use exactly_counted::ExactlyCounted;
use facts::Facts;
use forgeries::Forgeries;
pub(crate) use grants_within_quota::GrantsWithinQuota;
use hand_over::HandOver;
use last_good::LastGood;
use leases::Leases;
use ledger::Ledger;
use members::Members;
use never_over::NeverOver;
use notices::Notices;
use rollups::Rollups;
use store_time::StoreTime;
use true_denial::TrueDenial;
use wake_ups::WakeUps;

pub(crate) const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);

/// Maximum drift of a clock against true time, in millionths.
const DRIFT_PPM_MAX: u64 = 200;

pub(crate) struct Invariants {
    facts: Facts,
    answers: Answers,
    never_over: NeverOver,
    admitted: Admitted,
    counted_each: CountedEach,
    charged: Charged,
    leases: Leases,
    true_denial: TrueDenial,
    store_time: StoreTime,
    degraded: Degraded,
    exactly_counted: ExactlyCounted,
    hand_over: HandOver,
    ledger: Ledger,
    capped: Capped,
    last_good: LastGood,
    wake_ups: WakeUps,
    notices: Notices,
    members: Members,
    forgeries: Forgeries,
    rollups: Rollups,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) answered: usize,
    pub(crate) by_source: BTreeMap<Source, usize>,
    /// Calls that were lost in a crash of their agent.
    pub(crate) lost_in_crashes: usize,
    /// Comparisons of a partition's count with the log.
    pub(crate) compared: usize,
    /// Duplicates in the log, as each count saw them.
    pub(crate) duplicates: usize,
    /// Rollups of closed minutes that were compared with the log.
    pub(crate) rollups: usize,
    /// Partitions that were restored.
    pub(crate) restored: usize,
    /// Partitions that two aggregators owned at once.
    pub(crate) doubled: usize,
    /// Comparisons of an agent's charges with the store.
    pub(crate) balanced: usize,
    /// Admissions by the store that were compared with the charges that it made.
    pub(crate) charged: usize,
    /// Calls whose charge was a part of one for several.
    pub(crate) coalesced: usize,
    /// Admissions by leases that were compared with the units that the store had leased.
    pub(crate) leased: usize,
    /// Of these, admissions for whose calls the store was asked about another counter.
    pub(crate) leased_in_part: usize,
    /// Answers to calls with a request id, none of which was a lease.
    pub(crate) named: usize,
    /// Admissions of strict rules that were compared with the quota.
    pub(crate) admitted_strict: usize,
    /// Admissions of bounded rules that were compared with the quota.
    pub(crate) admitted_bounded: usize,
    /// Of both, those on counters whose window had changed.
    pub(crate) after_changes: usize,
    /// Admissions by a part while the store was late that were compared with it.
    pub(crate) by_part: usize,
    /// Admissions and denials of calls whose only rule counts each call.
    pub(crate) admitted_each: usize,
    pub(crate) denied_each: usize,
    /// Calls that were decided before a late answer.
    pub(crate) late: usize,
    /// Admissions by `on_failure` that were compared with its bound.
    pub(crate) bounded: usize,
    /// Comparisons of the members that an agent knows with those that it knew before.
    pub(crate) members: usize,
    /// Forged records that a node passed over.
    pub(crate) forged: usize,
    /// Admissions under a quota of all regions that were compared with it, and entries of the ledger.
    pub(crate) granted: usize,
    pub(crate) entries: usize,
    /// Units that agents entered again after a loss of the store.
    pub(crate) reopened: u64,
    /// Most units that were admitted in a window, in thousandths of its quota.
    pub(crate) worst_permille: u64,
}

impl Invariants {
    /// Returns the bookkeeping of a simulation whose agents may be given these rules.
    pub(crate) fn new(rules: Vec<RuleSet>, in_force: Generation, counters_max: usize) -> Self {
        let facts = Facts::new(rules, counters_max);
        Self {
            answers: Answers::default(),
            never_over: NeverOver::default(),
            admitted: Admitted::default(),
            counted_each: CountedEach::default(),
            charged: Charged::default(),
            leases: Leases::default(),
            true_denial: TrueDenial::default(),
            store_time: StoreTime::default(),
            degraded: Degraded::default(),
            exactly_counted: ExactlyCounted::default(),
            hand_over: HandOver::default(),
            ledger: Ledger::default(),
            capped: Capped::default(),
            last_good: LastGood::new(in_force),
            wake_ups: WakeUps::default(),
            notices: Notices::default(),
            members: Members::default(),
            forgeries: Forgeries::default(),
            rollups: Rollups::default(),
            facts,
        }
    }

    pub(crate) fn arrive(&mut self, agent: usize, calls: usize) {
        self.answers.arrive(agent, calls);
    }

    /// Checks everything after one step. Returns the calls that were answered.
    pub(crate) fn check(&mut self, sim: &mut Simulation<'static>) -> Result<Vec<AnsweredCall<'static>>, String> {
        self.charged.note_breakers(sim);
        let observations: Vec<_> = sim.observations().collect();
        let mut answered = Vec::new();
        for observation in observations {
            self.answers.observe(&self.facts, &observation)?;
            self.never_over.observe(&self.facts, sim, &observation)?;
            self.admitted.observe(&self.facts, sim, &observation)?;
            self.counted_each.observe(&self.facts, sim, &observation)?;
            self.charged.observe(&self.facts, sim, &observation)?;
            self.leases.observe(&self.facts, sim, &observation)?;
            self.true_denial.observe(&self.facts, sim, &observation)?;
            self.store_time.observe(&observation);
            self.degraded.observe(&self.facts, &observation)?;
            self.hand_over.observe(sim.now(), &observation);
            self.ledger.observe(&self.facts, sim, &observation);
            self.capped.observe(&self.facts, sim, &observation);
            self.last_good.observe(&observation);
            self.notices.observe(sim, &observation)?;
            self.members.observe(sim, &observation)?;
            self.forgeries.observe(sim, &observation)?;
            self.wake_ups.observe(&self.facts, sim, &observation);
            self.exactly_counted.observe(&observation);
            if let Observation::Answered(call) = observation {
                answered.push(call);
            }
        }
        self.store_time.check(sim)?;
        self.exactly_counted.check(sim)?;
        self.hand_over.check(sim)?;
        self.ledger.check(&self.facts, sim)?;
        self.capped.check(&self.facts, sim)?;
        self.last_good.check(sim)?;
        self.notices.check(sim)?;
        self.forgeries.check(sim)?;
        self.wake_ups.check(&self.facts, sim)?;
        Ok(answered)
    }

    /// Checks what must hold after a quiet time, in which nothing failed and no call came.
    pub(crate) fn finish(&mut self, sim: &Simulation<'_>) -> Result<Totals, String> {
        self.answers.finish(&self.facts, sim)?;
        self.exactly_counted.finish(sim)?;
        HandOver::finish(sim)?;
        Ledger::finish(&self.facts, sim)?;
        Forgeries::finish(sim)?;
        self.rollups.finish(sim)?;
        self.capped.finish(&self.facts, sim)?;
        Ok(Totals {
            answered: self.answers.answered(),
            by_source: self.answers.by_source().clone(),
            lost_in_crashes: self.answers.lost_in_crashes(),
            compared: self.exactly_counted.compared,
            duplicates: self.exactly_counted.duplicates,
            rollups: self.rollups.compared,
            restored: self.hand_over.restored,
            doubled: self.hand_over.doubled.len(),
            balanced: self.ledger.balanced,
            charged: self.charged.compared,
            coalesced: self.charged.coalesced,
            leased: self.leases.compared,
            leased_in_part: self.leases.mixed,
            named: self.leases.named,
            admitted_strict: self.admitted.strict,
            admitted_bounded: self.admitted.bounded,
            after_changes: self.admitted.after_changes,
            by_part: self.admitted.by_part,
            admitted_each: self.counted_each.admitted,
            denied_each: self.counted_each.denied,
            late: self.charged.late,
            bounded: self.degraded.bounded,
            members: self.members.compared,
            forged: self.forgeries.passed_over,
            granted: 0,
            entries: 0,
            reopened: self.never_over.reopened,
            worst_permille: self.never_over.worst_permille,
        })
    }
}

/// Returns the maximum difference between a period by a drifting clock and the same period by true time, in ms. The clock shows
/// whole ms, so it skips one or shows one twice now and then.
fn drift_ms(period_ms: u64) -> u64 {
    1 + period_ms * DRIFT_PPM_MAX / 1_000_000
}
