//! Calls: from matched rules to a decision, and the corrections that follow it.

mod known_calls;
mod thread_rules;
mod match_rules;
mod record;
mod planned_call;
mod counted_at;
mod plan_call;
mod leases;
mod decide;
mod joint_charge;
mod check_charges;
mod check;
mod finish_check;
mod eventual;
mod emergency;
mod settle_release;
mod reset;
mod check_sole;
mod local_answers;

pub use check::Decisions;
pub(crate) use check::{Beginning, BegunCalls, PlannedCalls};
pub use known_calls::FoundRule;
pub(crate) use leases::{Destination, Sending, grant};
pub(crate) use planned_call::PlannedCall;
#[cfg(test)]
pub(crate) use record::CallHome;
pub(crate) use record::{CallRow, signed};
pub use reset::{CallerReset, ResetEffect, ResetRule};
pub(crate) use reset::{RESET_DEADLINE, Reset};
pub(crate) use settle_release::{Adjustment, Correction};
pub(crate) use thread_rules::ThreadRules;
