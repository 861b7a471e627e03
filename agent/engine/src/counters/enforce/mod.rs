//! Decisions of one counter as pure functions: [`plan()`] decides a matched rule from the counter's view or asks the
//! store, and [`combine()`] combines the verdicts of the rules of one call.

mod facts;
mod part;
mod fallback;
mod pace;
mod plan;
mod combine;

pub(crate) use combine::{Combined, RuleVerdict, combine};
pub(crate) use facts::{Authority, Facts, FreshSignals};
pub(crate) use part::equal as equal_part;
pub(crate) use plan::{
    ChargeFacts, Enforcement, OPEN_WITHIN_DEADLINES, Plan, StoreAccess, cached_denial, plan, plan_late, plan_recovering,
};
