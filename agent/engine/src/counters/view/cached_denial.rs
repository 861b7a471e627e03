//! Cached denials: denials of the store that the agent repeats without asking again.
//!
//! As long as no unit is given back, a count falls only as time passes: until the earliest instant at which the counter
//! could admit, the store would deny again. But any agent may give units of most counters back at any time (by a settlement, a
//! release, or the refund of a call that was denied elsewhere), and a region may be granted units. No message tells the agents.
//! So an agent checks such a denial again after [`CHECKED_MS`] by its own clock, which no step of the store's clock moves. That
//! is one request for each denied counter in use, at any rate of calls: the first call that finds the check due asks, and the
//! denial holds for the others for another [`ANSWER_MS`], in which the answer should come.
//!
//! Where units never come back, the denial is checked once per sub-window, and at least every [`RESYNC_MS`]: see
//! `MatchedRule::keeps_units`. So is the denial of a call that costs more than
//! the counter ever admits. Other rules at another agent, a loss of data and a forward step of the store's clock show then.
//!
//! A call that takes the last units is told from when there is room again. The agent caches the denial of the next call at once,
//! so that it need not ask ([`next_denial`]). Such a denial is not held: the store has denied nobody yet.
//!
//! A window with the interpolated estimate frees a unit as often as its quota has units: of 1,000 per second, each ms. The
//! calls of a caller far past such a quota would all ask the store. A denial by the store is therefore held for at least
//! [`HOLD_MS`], and the caller is told so ([`hold`]). No unit is lost by it: those that become free stay free.

use tollgate_core::algorithm::{Algorithm, Limit, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResult};
use tollgate_core::rules::{Generation, LimitPolicy};
use tollgate_core::window::Estimate;

use crate::time::TimeBounds;

/// Maximum time for which a denial is repeated that a refund may end, in ms.
pub(crate) const CHECKED_MS: u64 = 250;
/// Part of [`CHECKED_MS`] in which the answer to a check is awaited, in ms.
const ANSWER_MS: u64 = 15;
/// Minimum time for which a denial under the interpolated estimate is repeated, in ms.
const HOLD_MS: u64 = 200;
/// Maximum time for which any other denial is repeated, in ms.
const RESYNC_MS: u64 = 10_000;

/// A denial of the store, and the conditions under which it holds.
///
/// It ends when the store's time may have reached `retry_at`, when its check is due, and with its generation. It also ends when
/// another limit applies to the caller (by an override of a key, or by a tier). The agent drops it when another charge of its own
/// changes the count ([`Self::outlasts`]), and when the store's clock has stepped. A call that asks the store lengthens it once, by
/// [`ANSWER_MS`]. If that call is admitted, the denial is dropped. If no answer comes, the next calls ask the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CachedDenial {
    /// Units left, and the times from which the call is admitted and the quota is free, by the store.
    remaining: u64,
    retry_at: Timestamp,
    reset_at: Timestamp,
    /// Cost that was denied. A smaller one may have room, and a greater one waits for longer.
    cost: u64,
    /// Generation of the rules; other rules may decide otherwise.
    generation: Generation,
    /// Limit of the caller, which another policy may change.
    limit: Limit,
    check: Check,
}

/// Instant of the agent's own clock from which the store is asked again, in ms. The lowest bit is 1 while it is being
/// asked, so that a counter has one word for both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Check(u64);

impl Check {
    fn due(at: Timestamp) -> Self {
        Self(at.as_ms() << 1)
    }

    fn at(self) -> Timestamp {
        Timestamp::from_ms(self.0 >> 1)
    }

    fn is_asked(self) -> bool {
        self.0 & 1 == 1
    }

    fn asked(self, answer_ms: u64) -> Self {
        Self((self.at().plus_ms(answer_ms).as_ms() << 1) | 1)
    }
}

impl CachedDenial {
    /// Creates the cached denial of a charge, which was sent at this instant of the agent's own clock. `keeps_units` is true if no
    /// unit of the counter ever comes back.
    pub(super) fn new(charge: &Charge, result: &ChargeResult, sent: Timestamp, keeps_units: bool) -> Self {
        let Verdict { remaining, retry_at, reset_at, .. } = result.verdict;
        let Charge { limit, generation, cost, .. } = *charge;
        // The store may know the limit of a newer generation, and a region may be granted units.
        let never_fits = cost > limit.capacity() && result.limit == limit.units && charge.budget.is_none();
        let checked_ms = if never_fits || keeps_units { RESYNC_MS } else { CHECKED_MS };
        let checked_ms = checked_ms.min(limit.window.sub_window_ms());
        let check = Check::due(sent.plus_ms(checked_ms - answer_ms(&limit)));
        Self { remaining, retry_at, reset_at, cost, generation, limit, check }
    }

    /// Notes that a call asks the store at the agent's own `now`. If the denial has just ended, it holds for the others until the
    /// answer should be there.
    pub(crate) fn ask(&mut self, now: Timestamp, store_now: TimeBounds) {
        let is_live = now < self.check.at() && store_now.latest < self.retry_at;
        let late_ms = store_now.latest.ms_since(self.retry_at);
        if is_live || self.check.is_asked() || late_ms > HOLD_MS {
            return;
        }
        let answer_ms = answer_ms(&self.limit);
        self.check = self.check.asked(answer_ms);
        if frees_units_singly(&self.limit) && store_now.latest >= self.retry_at {
            self.retry_at = store_now.latest.plus_ms(answer_ms);
        }
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.check.is_asked()
    }

    /// Returns true if the denial still tells the right time after this charge was made. A refund makes room. A call of another cost or
    /// limit, and a charge that needs no room, take units for which the denied call waits. An equal call without an id asks only if
    /// no denial holds, so the denial is a later one, unless it is being asked.
    pub(super) fn outlasts(&self, charge: &Charge) -> bool {
        let asks_always = !charge.mode.is_enforced() || charge.request.is_some();
        let is_equal = !asks_always && (charge.cost, charge.limit) == (self.cost, self.limit);
        charge.cost == 0 || is_equal && !self.is_asked()
    }

    pub(crate) fn verdict(&self) -> Verdict {
        let Self { remaining, retry_at, reset_at, .. } = *self;
        Verdict { admitted: false, remaining, retry_at, reset_at, delay_ms: 0 }
    }

    /// Returns the instant of the agent's own clock from which the store is asked again.
    pub(crate) fn check_at(&self) -> Timestamp {
        self.check.at()
    }

    /// Returns true if the store would deny a charge of this cost in the same way, or would have when the denial was checked last.
    /// `now` is the agent's own time.
    pub(crate) fn holds(
        &self,
        policy: &LimitPolicy,
        generation: Generation,
        cost: u64,
        now: Timestamp,
        store_now: TimeBounds,
    ) -> bool {
        generation == self.generation
            && cost == self.cost
            && now < self.check.at()
            && store_now.latest < self.retry_at
            && policy.limit() == self.limit
    }
}

/// Holds a denial by the store for the minimum time.
pub(crate) fn hold(charge: &Charge, result: &mut ChargeResult) {
    if frees_units_singly(&charge.limit) && !result.verdict.admitted {
        // Of a short window, a longer hold would be a large part.
        let held_ms = HOLD_MS.min(charge.limit.window.sub_window_ms() / 4);
        result.verdict.retry_at = result.verdict.retry_at.max(result.at.plus_ms(held_ms));
        result.verdict.reset_at = result.verdict.reset_at.max(result.verdict.retry_at);
    }
}

/// Returns the denial of the next call of the same cost, if a charge that was admitted has left it no room.
pub(crate) fn next_denial(result: &ChargeResult) -> Option<ChargeResult> {
    let Verdict { admitted, remaining, retry_at, .. } = result.verdict;
    if !result.charged || !admitted || retry_at <= result.at {
        return None;
    }
    let verdict = Verdict { admitted: false, remaining: remaining - result.leased, ..result.verdict };
    Some(ChargeResult { verdict, charged: false, leased: 0, ..*result })
}

/// Returns true if units leave the window one by one, and none is lost if it is used late.
fn frees_units_singly(limit: &Limit) -> bool {
    limit.algorithm == Algorithm::SlidingWindow(Estimate::Interpolated)
}

fn answer_ms(limit: &Limit) -> u64 {
    ANSWER_MS.min(limit.window.sub_window_ms() / 2)
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::CounterId;
    use tollgate_core::rules::Rule;

    use super::*;

    /// Store time is an hour ahead of the agent's own.
    const SENT: Timestamp = Timestamp::from_ms(10_000_000);
    const STORE_SENT: Timestamp = SENT.plus_ms(3_600_000);

    fn policy(quota: &str) -> LimitPolicy {
        let rule = Rule::per("key", &["api_key"], quota.parse().unwrap());
        rule.with(|policy| policy.algorithm = Algorithm::SlidingWindow(Estimate::Conservative))
            .policy
            .expect("a policy")
    }

    /// The denial of a call of this cost, which has room 40 s later.
    fn denial(policy: &LimitPolicy, cost: u64, keeps_units: bool) -> CachedDenial {
        let charge = Charge::enforce(CounterId::from_u128(1), policy.limit(), 3, cost, STORE_SENT);
        let retry_at = STORE_SENT.plus_ms(40_000);
        let verdict = Verdict { admitted: false, remaining: 1, retry_at, reset_at: retry_at, delay_ms: 0 };
        let (at, limit) = (STORE_SENT, policy.quota.units());
        let result = ChargeResult {
            verdict,
            charged: false,
            repeated: false,
            leased: 0,
            at,
            limit,
            limit_until: None,
            born: at,
            previous: at,
        };
        CachedDenial::new(&charge, &result, SENT, keeps_units)
    }

    /// B9: one call checks a denial. For the others it holds while the answer is awaited, within 250 ms of its sending.
    #[test]
    fn a_denial_holds_while_it_is_checked() {
        let (policy, mut denial) = (policy("10/min"), denial(&policy("10/min"), 2, false));
        let holds = |denial: &CachedDenial, ms| {
            let store_now = TimeBounds::exactly(STORE_SENT.plus_ms(ms));
            denial.holds(&policy, 3, 2, SENT.plus_ms(ms), store_now)
        };
        assert!(!holds(&denial, 235));
        for _ in 0..3 {
            denial.ask(SENT.plus_ms(235), TimeBounds::exactly(STORE_SENT.plus_ms(235)));
            assert!(holds(&denial, 249) && !holds(&denial, 250), "it is asked once");
        }
    }

    /// C7, true-denial: every condition that ends a cached denial.
    #[test]
    fn a_cached_denial_ends_with_each_of_its_conditions() {
        // Name; the quota and the cost of the denial, and true if units never come back; generation, cost, quota, and own and store
        // time since; true if it holds.
        type Case = (&'static str, (&'static str, u64, bool), u64, u64, &'static str, u64, u64, bool);
        let (minute, second) = (("10/min", 2, false), ("10/1s", 2, false));
        let (keeps_units, keeps_units_of_hours) = (("10/min", 2, true), ("10/h", 2, true));
        let cases: [Case; 16] = [
            ("at once", minute, 3, 2, "10/min", 0, 0, true),
            ("until it is checked", minute, 3, 2, "10/min", 234, 234, true),
            ("it is checked", minute, 3, 2, "10/min", 235, 235, false),
            ("it is checked whatever the store's clock does", minute, 3, 2, "10/min", 235, 0, false),
            ("the store's time may be that of its end", minute, 3, 2, "10/min", 100, 40_000, false),
            ("a sub-window has nearly passed", second, 3, 2, "10/1s", 85, 85, false),
            ("newer rules", minute, 4, 2, "10/min", 0, 0, false),
            ("an override of the caller", minute, 3, 2, "20/min", 0, 0, false),
            ("a smaller cost", minute, 3, 1, "10/min", 0, 0, false),
            ("a greater cost", minute, 3, 3, "10/min", 0, 0, false),
            ("no unit comes back", keeps_units, 3, 2, "10/min", 4_984, 4_984, true),
            ("a sub-window has nearly passed since the check", keeps_units, 3, 2, "10/min", 4_985, 4_985, false),
            ("newer rules, and no unit comes back", keeps_units, 4, 2, "10/min", 0, 0, false),
            ("its sub-windows are long", keeps_units_of_hours, 3, 2, "10/h", 9_985, 9_985, false),
            ("a cost that never fits", ("10/min", 11, false), 3, 11, "10/min", 4_984, 4_984, true),
            ("a cost that never fits is checked, too", ("10/h", 11, false), 3, 11, "10/h", 9_985, 9_985, false),
        ];
        for (name, (quota, denied, keeps_units), generation, cost, now_quota, own_ms, store_ms, holds) in cases {
            let store_now = TimeBounds::exactly(STORE_SENT.plus_ms(store_ms));
            let denial = denial(&policy(quota), denied, keeps_units);
            let seen = denial.holds(&policy(now_quota), generation, cost, SENT.plus_ms(own_ms), store_now);
            assert_eq!(seen, holds, "{name}");
        }
    }
}
