//! An admitted call, as its settlement or release names it: by the text of the decision's id.
//!
//! The text carries the time and the units of the call under a keyed digest that covers the descriptors, too. A
//! settlement can therefore refund no more than this call was charged, and on its own counters only. The store refunds
//! it once, by [`DecidedCall::correction`]. The text is made when it is shown, and never while a call is decided.
//! Under the public digest key, anybody can make such a text.

use std::fmt::Write;

use crate::call::Call;
use crate::clock::Timestamp;
use crate::counter::{CallCorrection, DigestKey, RequestId};
use crate::decision::Decision;
use crate::decision_id::DecisionId;

/// A call that was admitted: what it was charged, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedCall {
    id: DecisionId,
    at: Timestamp,
    /// Time in ms from `at` to the instant at which each further rule counts the call; empty if all rules count it at `at`.
    counted_after_ms: Box<[i64]>,
    /// Units of the rules that go by the call's own cost; none if the emergency switch admitted it.
    units: u64,
    /// Request of the call, if it has an id: all its decisions are one charge.
    request: Option<RequestId>,
}

impl DecidedCall {
    /// Returns an admitted call and its decision; nothing for a denied one, which was charged nothing.
    #[must_use]
    pub fn new(key: &DigestKey, call: &Call<'_>, decision: &Decision) -> Option<Self> {
        let request = || call.id().map(|id| key.request(id, call.cost(), call.descriptors()));
        let units = if decision.is_uncounted { 0 } else { call.cost() };
        let decided = || {
            let (id, counted_after_ms) = (decision.id.clone(), decision.counted_after_ms.clone());
            Self { id, at: decision.at, counted_after_ms, units, request: request() }
        };
        decision.allowed.then(decided)
    }

    /// Returns the identifier of the decision.
    #[must_use]
    pub fn id(&self) -> &DecisionId {
        &self.id
    }

    /// Returns the request of the call, if it has an id: all its decisions are one charge.
    #[must_use]
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// Returns the time of the decision, in store time.
    #[must_use]
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Returns the instant at which the rule at a position among those of the call counts it, in the time of its primary.
    #[must_use]
    pub fn counted_at(&self, position: usize) -> Timestamp {
        let after_ms = position.checked_sub(1).and_then(|further| self.counted_after_ms.get(further)).copied();
        match after_ms.unwrap_or_default() {
            after_ms @ 0.. => self.at.plus_ms(after_ms.unsigned_abs()),
            before_ms => self.at.minus_ms(before_ms.unsigned_abs()),
        }
    }

    /// Returns the units that the call was charged under the rules that go by its own cost.
    #[must_use]
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Returns the text of the decision's id.
    #[must_use]
    pub fn text(&self, key: &DigestKey, call: &Call<'_>) -> String {
        let request = self.request.map_or(0, RequestId::as_u128);
        let mut at = format!("{:x}", self.at.as_ms());
        for after_ms in &self.counted_after_ms {
            // Differences of both signs, the small ones first.
            let _ = write!(at, "~{:x}", after_ms << 1 ^ after_ms >> 63);
        }
        let mut text = format!("{}-{at}-{:x}-{request:x}", self.id, self.units);
        let proof = proof(key, &text, call);
        // A string takes all text.
        let _ = write!(text, "-{proof:016x}");
        text
    }

    /// Reads the text of the id of a decision on this call; nothing if no agent has made it.
    #[must_use]
    pub fn read(text: &str, key: &DigestKey, call: &Call<'_>) -> Option<Self> {
        let (signed, shown) = text.rsplit_once('-')?;
        if format!("{:016x}", proof(key, signed, call)) != shown {
            return None;
        }
        let mut parts = signed.rsplitn(5, '-');
        let request = u128::from_str_radix(parts.next()?, 16).ok()?;
        let (units, mut instants) = (number(parts.next()?)?, parts.next()?.split('~').map(number));
        let at = instants.next()??;
        let signed = |folded: u64| (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
        let counted_after_ms = instants.map(|after_ms| after_ms.map(signed)).collect::<Option<_>>()?;
        let home = parts.next()?;
        let (call, partition) = match home.split_once('.') {
            Some((call, partition)) => (number(call)?, Some(u32::from_str_radix(partition, 16).ok()?)),
            None => (number(home)?, None),
        };
        let id = DecisionId { life: parts.next()?.into(), call, partition };
        let request = (request != 0).then(|| RequestId::from_u128(request));
        Some(Self { id, at: Timestamp::from_ms(at), counted_after_ms, units, request })
    }

    /// Returns the request by which a store recognises that the call was settled before, or that it was released
    /// before: a call may be both.
    #[must_use]
    pub fn correction(&self, key: &DigestKey, kind: CallCorrection) -> RequestId {
        self.request.unwrap_or_else(|| key.decision(&self.id.to_string())).correction(kind)
    }
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

/// Returns the keyed digest of a text and the descriptors of a call, in the order of their names.
fn proof(key: &DigestKey, text: &str, call: &Call<'_>) -> u64 {
    let mut descriptors: Vec<_> = call.descriptors().collect();
    descriptors.sort_unstable();
    key.proof(std::iter::once(text).chain(descriptors.into_iter().flat_map(|(name, value)| [name, value])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::Source;

    fn decided(key: &DigestKey, call: &Call<'_>) -> DecidedCall {
        decided_in(Some(26), key, call)
    }

    fn decided_in(partition: Option<u32>, key: &DigestKey, call: &Call<'_>) -> DecidedCall {
        let id = DecisionId { life: "agent-7-19a6b2".into(), call: 11, partition };
        let decision = Decision::new(true, Source::Store, Timestamp::from_ms(1_767_323_045_000), id);
        DecidedCall::new(key, call, &decision).expect("it is admitted")
    }

    /// Golden text: ids outlive the process that made them.
    #[test]
    fn the_text_of_an_id_carries_what_the_call_was_charged() {
        let key = DigestKey::default();
        let call = Call::new().with("user", "u1").with("endpoint", "/x").costing(300);
        let text = decided(&key, &call).text(&key, &call);
        assert!(text.starts_with("agent-7-19a6b2-b.1a-19b7ca98c88-12c-0-") && text.len() < 128, "{text}");
        let reordered = Call::new().with("endpoint", "/x").with("user", "u1");
        assert_eq!(DecidedCall::read(&text, &key, &reordered), Some(decided(&key, &call)));
        let without_bus = decided_in(None, &key, &call);
        let text = without_bus.text(&key, &call);
        assert!(text.starts_with("agent-7-19a6b2-b-19b7ca98c88-12c-0-"), "{text}");
        assert_eq!(DecidedCall::read(&text, &key, &call), Some(without_bus));
        let named = call.clone().identified("r-1");
        let text = decided(&key, &named).text(&key, &named);
        assert_eq!(DecidedCall::read(&text, &key, &named), Some(decided(&key, &named)));
    }

    /// Each primary of a store has its own clock, and a slot or the entry of a log is found by its instant.
    #[test]
    fn a_rule_that_another_primary_counts_has_an_instant_of_its_own() {
        let (key, call) = (DigestKey::default(), Call::new().with("user", "u1"));
        let differences = [0, 300, -30_000, -1];
        let many = DecidedCall { counted_after_ms: differences.into(), ..decided(&key, &call) };
        let text = many.text(&key, &call);
        assert!(text.contains("-19b7ca98c88~0~258~ea5f~1-"), "{text}");
        let read = DecidedCall::read(&text, &key, &call).expect("its own text");
        let at = read.at().as_ms().cast_signed();
        let expected: Vec<_> =
            [0].into_iter().chain(differences).chain([0]).map(|difference| at + difference).collect();
        let instants: Vec<_> = (0..=5).map(|position| read.counted_at(position).as_ms().cast_signed()).collect();
        assert_eq!((read == many, instants), (true, expected));
    }

    #[test]
    fn a_text_that_no_agent_made_is_no_id() {
        let key = DigestKey::default();
        let call = Call::new().with("user", "u1").costing(3);
        let text = decided(&key, &call).text(&key, &call);
        let more = text.replace("-3-0-", "-300-0-");
        assert_ne!(more, text);
        for forged in ["", "-", "agent-7-19a6b2-b", "a-1-2-3-4-5", &more, &text[..text.len() - 1]] {
            assert_eq!(DecidedCall::read(forged, &key, &call), None, "{forged}");
        }
        assert_eq!(DecidedCall::read(&text, &key, &Call::new().with("user", "u2")), None, "of another caller");
        assert_eq!(DecidedCall::read(&text, &DigestKey::new([7; 16]), &call), None, "under another key");
    }

    #[test]
    fn all_decisions_on_one_request_are_corrected_once() {
        let (key, call) = (DigestKey::default(), Call::new().with("user", "u1"));
        let other = |call: &Call<'_>| {
            let decided = decided(&key, call);
            DecidedCall { id: DecisionId { call: 12, ..decided.id.clone() }, ..decided }
                .correction(&key, CallCorrection::Settlement)
        };
        let of = |call: &Call<'_>, kind| decided(&key, call).correction(&key, kind);
        assert_ne!(of(&call, CallCorrection::Settlement), other(&call));
        assert_ne!(of(&call, CallCorrection::Settlement), of(&call, CallCorrection::Release));
        let named = call.identified("r-1");
        assert_eq!(of(&named, CallCorrection::Settlement), other(&named));
        let request = decided(&key, &named).request();
        for kind in [CallCorrection::Settlement, CallCorrection::Release] {
            assert_eq!(Some(of(&named, kind).corrected(kind)), request);
        }
    }
}
