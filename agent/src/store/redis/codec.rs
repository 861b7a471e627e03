//! The bytes between the agent and the charge script (`lua/evaluate.lua`): charges to it, its answer back.
//!
//! The script decides; the agent makes the verdict. So an answer holds the values as they were read ([`value`]), and
//! [`StoredCounter::evaluate`] evaluates them at the store's time, as in every other store.
//!
//! [`value`]: super::value

use bytes::{Buf, BufMut};
use tollgate_core::algorithm::{CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeMode, ChargeResult, ChargeResults, StoredCounter};

use super::value::{self, EXACT_MAX, number, time};

/// Length of a charge with a lease.
const CHARGE_LEN_MAX: usize = 52;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum StepAnswer {
    /// The step ran at this time, after a charge had expired, and charged nothing.
    Expired(Timestamp),
    /// The step was evaluated.
    Evaluated(ChargeResults),
    /// The value of this charge's counter must be replaced first; nothing was charged.
    Stale { charge: usize, now: Timestamp, value: Vec<u8> },
}

const EXPIRED: u8 = 0;
const REFUSED: u8 = 1;
const CHARGED: u8 = 2;
const STALE: u8 = 3;
const LEFT: u8 = 4;

/// Addition to a mode: the request id is looked up.
const NAMED: u8 = 8;
/// Addition to a mode: the limits of the region give the quota (`lua/budgets.lua`).
const BUDGETED: u8 = 32;
/// Addition to a mode: a refund leaves nothing of the charge of its request, whose id is forgotten.
const WHOLE: u8 = 64;

/// Flag of an evaluated charge.
const REPEATED: u8 = 1;

impl StepAnswer {
    /// Reads the answer to these charges; `None` if it does not have the form of one.
    pub(super) fn read(answer: &[u8], charges: &[Charge]) -> Option<Self> {
        let rest = &mut &*answer;
        if !has_budget(charges) {
            return Self::read_plain(rest, charges);
        }
        rest.try_get_u8().ok()?;
        let (charges, ends): (Vec<Charge>, Vec<Option<Timestamp>>) =
            charges.iter().map(|charge| budgeted(rest, charge)).collect::<Option<_>>()?;
        let mut answer = Self::read_plain(rest, &charges)?;
        if let Self::Evaluated(results) = &mut answer {
            for (result, end) in results.iter_mut().zip(ends) {
                result.limit_until = result.limit_until.into_iter().chain(end).min();
            }
        }
        Some(answer)
    }

    /// Reads the answer to charges whose quotas are known.
    fn read_plain(rest: &mut &[u8], charges: &[Charge]) -> Option<Self> {
        let outcome = rest.try_get_u8().ok()?;
        let now = time(rest)?;
        match outcome {
            EXPIRED => Some(Self::Expired(now)),
            REFUSED | CHARGED => {
                let mut read = |place| result(rest, &charges[..=place], now, outcome == CHARGED);
                let results: Option<ChargeResults> = (0..charges.len()).map(&mut read).collect();
                results.filter(|_| rest.is_empty()).map(Self::Evaluated)
            }
            STALE => {
                let charge = usize::try_from(number(rest, 2)?).ok().filter(|charge| *charge < charges.len())?;
                Some(Self::Stale { charge, now, value: rest.to_vec() })
            }
            _ => None,
        }
    }
}

/// True if a step of these charges is too late at `now`, an instant of store time.
pub(super) fn has_expired(charges: &[Charge], now: Timestamp) -> bool {
    charges.iter().any(|charge| charge.mode.has_expired(now))
}

/// True if the limits of the region give the quota of a charge.
pub(super) fn has_budget(charges: &[Charge]) -> bool {
    charges.iter().any(|charge| charge.budget.is_some())
}

/// True if the answer says that another digest key than the agent's holds the region.
pub(super) fn is_of_other_key(answer: &[u8], charges: &[Charge]) -> bool {
    has_budget(charges) && answer.first() == Some(&1)
}

/// Reads the quota in force of a charge with a budget, and the instant at which granted units end.
fn budgeted(rest: &mut &[u8], charge: &Charge) -> Option<(Charge, Option<Timestamp>)> {
    if charge.budget.is_none() {
        return Some((charge.clone(), None));
    }
    let (units, end_ms) = (number(rest, 7)?, number(rest, 7)?);
    let end = (end_ms > 0).then_some(Timestamp::from_ms(if end_ms >= EXACT_MAX { u64::MAX } else { end_ms }));
    Some((Charge { limit: Limit { units, ..charge.limit }, ..charge.clone() }, end))
}

/// Reads the answers to charges of which each is a step; none for a step that was left to a run of its own. Returns `None` if
/// the answer does not have this form.
pub(super) fn read_each(answer: &[u8], charges: &[Charge]) -> Option<Vec<Option<ChargeResults>>> {
    let rest = &mut &*answer;
    let mut read = |charge| match rest.try_get_u8().ok()? {
        LEFT => Some(None),
        outcome @ (REFUSED | CHARGED) => {
            let now = time(rest)?;
            let result = result(rest, std::slice::from_ref(charge), now, outcome == CHARGED)?;
            Some(Some(ChargeResults::from_iter([result])))
        }
        _ => None,
    };
    let results = charges.iter().map(&mut read).collect::<Option<_>>();
    results.filter(|_| rest.is_empty())
}

pub(super) fn charge_bytes(charge: &Charge) -> Vec<u8> {
    let (mode, at) = match charge.mode {
        ChargeMode::Enforce { expires_at } => (0, expires_at),
        ChargeMode::CountOnly { expires_at } => (1, expires_at),
        ChargeMode::Evaluate { expires_at } => (2, expires_at),
        ChargeMode::Backfill { at } => (3, at),
        ChargeMode::Refund { at, .. } => (4, at),
        ChargeMode::Reset => (4, Timestamp::from_ms(EXACT_MAX)),
        ChargeMode::Reopen { at } => (6, at),
        ChargeMode::Lease { expires_at, .. } => (7, expires_at),
    };
    let mut bytes = Vec::with_capacity(CHARGE_LEN_MAX);
    let mut put = |len, number| bytes.put_uint_le(number, len);
    let named = if charge.request.is_some() { NAMED } else { 0 };
    let budgeted = if charge.budget.is_some() { BUDGETED } else { 0 };
    let whole = if charge.refunds_whole().is_some() { WHOLE } else { 0 };
    put(1, u64::from(mode + named + budgeted + whole));
    value::put_policy(&mut put, &charge.limit, charge.generation);
    // More than any quota, and still exact.
    put(7, charge.cost.min(EXACT_MAX + 1));
    put(7, at.as_ms().min(EXACT_MAX));
    if let ChargeMode::Lease { units_max, agents, .. } = charge.mode {
        put(4, units_max.into());
        put(4, agents.max(1).into());
    }
    bytes
}

/// Reads the result of the last of these charges.
fn result(rest: &mut &[u8], charges: &[Charge], now: Timestamp, all_charged: bool) -> Option<ChargeResult> {
    let charge = charges.last()?;
    let flags = rest.try_get_u8().ok()?;
    let len = usize::try_from(number(rest, 2)?).ok()?;
    // Only the first charge, one that removes units, or another policy changes what the charges after it find: hundreds of backfilled
    // ones need no repetition.
    let first = charges.iter().find(|first| first.counter == charge.counter)?;
    let affects = |earlier: &Charge| {
        let is_same_policy = (earlier.limit, earlier.generation) == (charge.limit, charge.generation);
        earlier.mode.removes_units()
            || !is_same_policy
            || [first, charge].into_iter().any(|kept| std::ptr::eq(earlier, kept))
    };
    let is_of_counter = |earlier: &&Charge| earlier.counter == charge.counter && affects(earlier);
    let of_counter = charges.iter().filter(is_of_counter).map(value::exact_charge);
    let (shown, others) = rest.split_at_checked(len)?;
    *rest = others;
    let mut counter = match shown {
        [] => StoredCounter::new(&of_counter.clone().next()?),
        shown => value::read_shown(shown)?,
    };
    let policy = (!shown.is_empty()).then(|| (counter.limit(), counter.generation()));
    let repeated = flags & REPEATED != 0;
    let is_log = matches!(counter.state(), CounterState::Log(_));
    let mut result = None;
    for mut earlier in of_counter {
        // A charge with a budget that has not converted the counter to its window has followed it (`lua/budgets.lua`).
        if let Some((limit, generation)) = policy.filter(|(limit, generation)| {
            earlier.budget.is_some() && limit.window != earlier.limit.window && *generation <= earlier.generation
        }) {
            (earlier.limit, earlier.generation) = (Limit { units: earlier.limit.units, ..limit }, generation);
        }
        // The script shows the values as it read them, and the runs of a log as they are after refunds.
        let is_free = repeated || is_log && earlier.mode.removes_units();
        if is_free {
            earlier.cost = 0;
        }
        result = Some(counter.evaluate(&earlier, now));
    }
    let mut result = result?;
    result.verdict.admitted |= repeated;
    let is_charged = charge.mode.is_charged(all_charged);
    let leased = if is_charged && !repeated { result.leased } else { 0 };
    Some(ChargeResult { charged: is_charged, repeated, leased, ..result })
}
