//! Memory of the mutants: the facts about earlier calls by which a shell makes an engine behave as if it had the mistake.
//!
//! `experiments/mutants.md` describes the mistakes. Two of them let an agent decide by what has ended: the shell then hands the
//! call to the engine as it was before the end, and only if the engine decides it without the store.

use tollgate::{Call, Decision, Source};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResult};
use tollgate_core::rules::Generation;

use super::planted_bugs::PlantedBug;

/// Time for which an agent repeats a denial without asking, in ms.
const REPEATED_MS: u64 = 235;
/// Maximum drift, in millionths, and reading error, in ms, by which an agent ends a lease early.
const DRIFT_PPM: u64 = 400;
const READ_MS: u64 = 2;

/// Facts about the earlier calls of one life of an agent.
#[derive(Default)]
pub(super) struct MutantMemory<'c> {
    /// Agent's own times at which leases end, and at which they would end if they counted from the receipt.
    leased: Vec<(Timestamp, Timestamp)>,
    denied: Vec<RememberedDenial<'c>>,
}

struct RememberedDenial<'c> {
    call: Call<'c>,
    generation: Generation,
    sent: Timestamp,
}

impl<'c> MutantMemory<'c> {
    /// Returns the agent's own time and the call by which an agent with the mistake would decide a call, if they differ.
    pub(super) fn altered(
        &self,
        bug: PlantedBug,
        own_now: Timestamp,
        generation: Generation,
        call: &Call<'c>,
    ) -> Option<(Timestamp, Call<'c>)> {
        if call.id().is_some() {
            return None;
        }
        match bug {
            PlantedBug::LeaseCountedFromReceipt => {
                let is_between = |(ended, would_end): &&(Timestamp, Timestamp)| (*ended..*would_end).contains(&own_now);
                let (ended, _) = self.leased.iter().find(is_between)?;
                Some((ended.minus_ms(1), call.clone()))
            }
            PlantedBug::DenialOfAnyCost => {
                let is_repeated = |denied: &&RememberedDenial<'_>| {
                    denied.generation == generation
                        && own_now.ms_since(denied.sent) < REPEATED_MS
                        && denied.call.cost() > call.cost()
                        && is_same_caller(&denied.call, call)
                };
                let denied = self.denied.iter().find(is_repeated)?;
                Some((own_now, denied.call.clone()))
            }
            _ => None,
        }
    }

    /// Notes the answer to a call that was alone in its request and arrived at the agent's own `sent`.
    pub(super) fn answered(&mut self, call: &Call<'c>, generation: Generation, sent: Timestamp, decision: &Decision) {
        if decision.source == Source::Store {
            self.denied
                .retain(|denied| sent.ms_since(denied.sent) < REPEATED_MS && !is_same_caller(&denied.call, call));
            if !decision.allowed {
                self.denied.push(RememberedDenial { call: call.clone(), generation, sent });
            }
        }
    }

    /// Notes the leases in the answer to a request that was sent and received at these instants of the agent's own clock.
    pub(super) fn leased(
        &mut self,
        charges: &[Charge],
        results: &[ChargeResult],
        sent: Timestamp,
        received: Timestamp,
    ) {
        for (charge, result) in charges.iter().zip(results).filter(|(_, result)| result.leased > 0) {
            let window = charge.limit.window;
            let left_ms = window.end_of(window.sub_window(result.at)).ms_since(result.at);
            let early_ms = (left_ms * DRIFT_PPM).div_ceil(1_000_000) + READ_MS;
            let after = |at: Timestamp| at.plus_ms(left_ms.saturating_sub(early_ms));
            self.leased.retain(|(_, would_end)| *would_end > received);
            self.leased.push((after(sent), after(received)));
        }
    }
}

fn is_same_caller(one: &Call<'_>, other: &Call<'_>) -> bool {
    one.descriptors().eq(other.descriptors())
}
