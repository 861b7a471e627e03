//! Verdicts without the store, by the rule's `on_failure`: with fresh signals, and without.
//!
//! | `on_failure` | with fresh signals | without |
//! | --- | --- | --- |
//! | `share` | this agent's part of the units that the signal leaves free | the least of this agent's parts of the window and of the units that the last answer of the store and the last signal leave free |
//! | `open` | denies only calls that the signal proves to be over the quota | admits |
//! | `closed` | denies | denies |
//! | `limit` | its quota on each agent, and no more than the signal leaves free | its quota on each agent |
//!
//! A window is the most units that it may hold: the quota, the burst of a `sliding_window`, or burst and quota of a
//! bucket. Where a rule has a burst, the units of a window do not tell the units that are free: the last answer of the
//! store then takes the place of the agent's part of the window, and admissions are also held to a
//! [`pace`](super::pace). [`plan`](super::plan()) chooses the column by the authority.
//!
//! Under `consistency: eventual`, fresh signals decide alone ([`eventual()`]). Without them, the right column holds.

#[cfg(test)]
mod tests;

use tollgate_core::algorithm::{Algorithm, Verdict};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::rules::{LimitPolicy, OnFailure};
use tollgate_core::window::Estimate;

use super::facts::{Facts, FreshSignals};
use super::part;
use crate::counters::view::{CounterView, CoveredRounds, RemoteCount};

/// `Retry-After` of a denial that only the return of the store can end, in ms.
const STORE_RETRY_MS: u64 = 1_000;

/// Units that may be admitted, and the time from which a call has room that has none now.
struct Room {
    units: u64,
    retry_at: Timestamp,
}

/// Decides by fresh signals. The source is the fallback if the signals make no difference.
pub(crate) fn by_signal(
    policy: &LimitPolicy,
    view: &CounterView,
    facts: &Facts,
    fresh: &FreshSignals,
    cost: u64,
) -> (Verdict, Source) {
    let now = facts.now.earliest;
    let most_in_window = policy.most_in_window();
    let remote = view.remote.as_deref();
    let own = |at| own_beyond(view, &fresh.covered, policy, at);
    // Units that the signal leaves free. A counter without a newer signal may hold any count below the threshold, and agents
    // may still spend leases, which no signal contains.
    let free = || {
        let unsignalled = policy.units_over_regions().saturating_mul(u64::from(fresh.threshold_permille)) / 1_000;
        let signalled = remote.map_or(0, |remote| used(remote, policy, now)).max(unsignalled);
        let charged = charged_with_leases(policy, view, now).map_or(0, |charged| charged.saturating_sub(own(now)));
        most_in_window.saturating_sub(signalled.max(charged))
    };
    let next_sub_window = policy.window.start_of(policy.window.sub_window(now) + 1).max(now.plus_ms(1));
    let room = match policy.on_failure {
        OnFailure::Closed => return (closed(now), Source::Fallback),
        OnFailure::Open => {
            // At the latest possible time: units that are still in the window then are in the window.
            let at = facts.now.latest;
            let used = remote.map_or(0, |remote| used(remote, policy, at)).saturating_add(own(at));
            let most = most_in_window.checked_sub(cost.saturating_add(own(at)));
            let retry_at = remote.zip(most).map(|(remote, most)| falls_to(remote, policy, most, now));
            Room { units: most_in_window.saturating_sub(used), retry_at: retry_at.unwrap_or(next_sub_window) }
        }
        OnFailure::Share => {
            let part = part::by_flow(policy, facts, view, free());
            Room { units: part.saturating_sub(own(now)), retry_at: next_sub_window }
        }
        OnFailure::Limit(limit) => {
            let Room { units, retry_at } = own_room(policy, view, limit.units(), now, cost);
            let free = free().saturating_sub(own(now));
            if units < free { Room { units, retry_at } } else { Room { units: free, retry_at: next_sub_window } }
        }
    };
    let reset_at = remote.map_or(now, |remote| falls_to(remote, policy, 0, now));
    (verdict(now, &room, cost, reset_at), Source::Signal)
}

/// Decides under `consistency: eventual` by fresh signals. A call may use all units that the signals leave free beside
/// those that the agent itself has admitted since. Units are not divided, so the agents together admit too many only
/// until a signal contains these units. A counter without a signal may hold any count below the threshold; the agent
/// knows its own part of it.
pub(crate) fn eventual(
    policy: &LimitPolicy,
    view: &CounterView,
    facts: &Facts,
    fresh: &FreshSignals,
    cost: u64,
) -> Verdict {
    let (now, quota, remote) = (facts.now.earliest, policy.most_in_window(), view.remote.as_deref());
    // Of a fixed window, no unit of an earlier one counts.
    let own_ms = match policy.algorithm {
        Algorithm::FixedWindow => now.ms_since(policy.window.start_of(policy.window.sub_window(now))) + 1,
        _ => policy.window.width_ms(),
    };
    let beyond = view.local.as_deref().map_or(0, |local| local.uncovered.beyond(&fresh.covered, now, own_ms));
    // `on_failure: limit` keeps the own admissions by a window of its own.
    let own = view.admitted(policy).filter(|own| own.window() == policy.window);
    let signalled = remote.map_or(0, |remote| used(remote, policy, now)).saturating_add(beyond);
    let admitted = own.as_ref().map_or(0, |own| own.used(now, policy.algorithm.estimate()));
    let most = quota.checked_sub(cost);
    let retry_at = most.map_or(now.plus_ms(STORE_RETRY_MS), |most| {
        let by_signal = remote.zip(most.checked_sub(beyond)).map(|(remote, most)| falls_to(remote, policy, most, now));
        let by_own =
            own.as_ref().filter(|_| admitted > most).map(|own| own.falls_to(most, now, policy.algorithm.estimate()));
        let next_sub_window = policy.window.start_of(policy.window.sub_window(now) + 1);
        by_signal.max(by_own).unwrap_or(next_sub_window)
    });
    let reset_at = remote.map_or(now, |remote| falls_to(remote, policy, 0, now));
    let reset_at = own.map_or(reset_at, |own| reset_at.max(own.falls_to(0, now, policy.algorithm.estimate())));
    verdict(now, &Room { units: quota.saturating_sub(signalled.max(admitted)), retry_at }, cost, reset_at)
}

/// Returns a denial by the last signal, whatever its age, if its count alone still leaves no room. Only the store knows the quota
/// of a global rule.
pub(crate) fn denied_by_signal(policy: &LimitPolicy, view: &CounterView, facts: &Facts, cost: u64) -> Option<Verdict> {
    let (now, remote) = (facts.now.earliest, view.remote.as_deref().filter(|_| policy.global_quota.is_none())?);
    let most_in_window = policy.most_in_window();
    let most = most_in_window.checked_sub(cost)?;
    // At the latest possible time: units that are still in the window then are in the window.
    let used = used(remote, policy, facts.now.latest);
    let room = Room { units: most_in_window.saturating_sub(used), retry_at: falls_to(remote, policy, most, now) };
    (used > most).then(|| verdict(now, &room, cost, falls_to(remote, policy, 0, now)))
}

/// Decides without fresh signals. `covered` are the own rounds that the last signal contains.
pub(crate) fn alone(
    policy: &LimitPolicy,
    view: &CounterView,
    facts: &Facts,
    covered: &CoveredRounds,
    cost: u64,
) -> Verdict {
    let now = facts.now.earliest;
    let most_in_window = policy.most_in_window();
    let reset_at = view.admitted(policy).map_or(now, |ring| ring.falls_to(0, now, Estimate::Conservative));
    let room = match policy.on_failure {
        OnFailure::Closed => return closed(now),
        OnFailure::Open => {
            let remaining = own_room(policy, view, most_in_window, now, 0).units.saturating_sub(cost);
            return Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 };
        }
        OnFailure::Limit(limit) => own_room(policy, view, limit.units(), now, cost),
        OnFailure::Share => {
            let part = |free| part::equal(policy, facts, free);
            // The units that must be free for the part of them to have room for the call, beside so many own units.
            let agents = facts.part.agents().map_or(u64::MAX, |agents| agents.get().into());
            let wanted = |own: u64| cost.saturating_add(own).saturating_mul(agents);
            let never = now.plus_ms(STORE_RETRY_MS);
            let by_window = own_room(policy, view, part(most_in_window), now, cost);
            let by_store = view.store_count(policy, now).map(|count| Room {
                units: part(policy.at_once().saturating_sub(count.units)).saturating_sub(count.since),
                retry_at: count.falls_to(policy.at_once().saturating_sub(wanted(count.since))),
            });
            let by_signal = view.remote.as_deref().map(|remote| {
                let own = own_beyond(view, covered, policy, now);
                let falls_to = |units| falls_to(remote, policy, units, now);
                Room {
                    units: part(most_in_window.saturating_sub(used(remote, policy, now))).saturating_sub(own),
                    retry_at: most_in_window.checked_sub(wanted(own)).map_or(never, falls_to),
                }
            });
            // What the agent has admitted through the store may be more than its part of a burst that is free again.
            let by_window = (policy.burst == 0 || by_store.is_none()).then_some(by_window);
            let rooms = by_window.into_iter().chain(by_store).chain(by_signal);
            rooms.min_by_key(|room| room.units).unwrap_or(Room { units: 0, retry_at: never })
        }
    };
    verdict(now, &room, cost, reset_at)
}

/// Returns the units that a limit leaves beyond the agent's own admissions in the window of `on_failure`.
fn own_room(policy: &LimitPolicy, view: &CounterView, limit: u64, now: Timestamp, cost: u64) -> Room {
    let admitted = view.admitted(policy);
    let used = admitted.as_ref().map_or(0, |ring| ring.used(now, Estimate::Conservative));
    let falls_to = |units| admitted.as_ref().map_or(now, |ring| ring.falls_to(units, now, Estimate::Conservative));
    // More than the limit: only the store's return can end the denial.
    let retry_at = limit.checked_sub(cost).map_or(now.plus_ms(STORE_RETRY_MS), falls_to);
    Room { units: limit.saturating_sub(used), retry_at }
}

/// Returns the agent's own units in the window that the signal does not contain.
fn own_beyond(view: &CounterView, covered: &CoveredRounds, policy: &LimitPolicy, now: Timestamp) -> u64 {
    view.local.as_deref().map_or(0, |local| local.uncovered.beyond(covered, now, policy.window.width_ms()))
}

/// Returns the units that the store had charged by its last answer, and the agent's own admissions since. None once no
/// other agent can spend a lease that is among these units.
fn charged_with_leases(policy: &LimitPolicy, view: &CounterView, now: Timestamp) -> Option<u64> {
    let known = view.store_count(policy, now).filter(|_| policy.may_lease())?;
    // The newest units of a sliding window leave it a window after the end of their sub-window.
    let leased_until = match policy.algorithm {
        Algorithm::FixedWindow => known.until(),
        _ => known.until().minus_ms(policy.window.width_ms()),
    };
    (now <= leased_until).then(|| known.units.saturating_add(known.since))
}

fn closed(now: Timestamp) -> Verdict {
    let at = now.plus_ms(STORE_RETRY_MS);
    Verdict { admitted: false, remaining: 0, retry_at: at, reset_at: at, delay_ms: 0 }
}

fn verdict(now: Timestamp, room: &Room, cost: u64, reset_at: Timestamp) -> Verdict {
    if let Some(remaining) = room.units.checked_sub(cost) {
        return Verdict { admitted: true, remaining, retry_at: now, reset_at, delay_ms: 0 };
    }
    let retry_at = room.retry_at.max(now.plus_ms(1));
    Verdict { admitted: false, remaining: room.units, retry_at, reset_at: reset_at.max(retry_at), delay_ms: 0 }
}

fn used(remote: &RemoteCount, policy: &LimitPolicy, now: Timestamp) -> u64 {
    remote.admitted.used(now, policy.algorithm.estimate())
}

fn falls_to(remote: &RemoteCount, policy: &LimitPolicy, units: u64, now: Timestamp) -> Timestamp {
    remote.admitted.falls_to(units, now, policy.algorithm.estimate())
}
