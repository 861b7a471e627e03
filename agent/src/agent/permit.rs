//! Slots of a call under `concurrency`: a permit that releases them when dropped, or a token to release them elsewhere.
//!
//! A call that panics or is cancelled therefore releases its slots. The library and HTTP share one text. A token of the
//! counters' digests was rejected, because a release needs the limit policy, which follows from the descriptors.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_core::call::Call;
use tollgate_core::decided_call::DecidedCall;

/// Slots that a call holds under `concurrency` rules.
///
/// Dropping the permit releases them: at once if the counters are in memory, else by a task on the runtime in which the
/// agent was started. The drop never waits and works on any thread. If the store does not answer the task, the slots become
/// free after the window of their quota. A permit keeps its agent alive, as a clone of the agent does.
/// [`into_token`](Self::into_token) moves the release elsewhere, and [`Agent::release`](super::Agent::release) waits for the
/// answer.
#[must_use = "dropping a permit releases its slots: keep it until the call has ended"]
pub struct Permit(Box<HeldSlots>);

/// Text that releases the slots of one call, at any agent of the fleet and in any process.
///
/// The text is the body of `POST /release`: the descriptors of the call, and the id of its decision. It therefore contains
/// what the descriptors contain, such as API keys.
///
/// ```
/// use tollgate::ReleaseToken;
/// let text = r#"{"descriptors":{"user":"u1"},"id":"agent-7-19a6b2-b-19b7ca98c88-1-0-0123456789abcdef"}"#;
/// let token: ReleaseToken = text.parse()?;
/// assert_eq!(token.to_string(), text);
/// # Ok::<(), tollgate::ReleaseTokenError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseToken {
    pub(super) call: Call<'static>,
    pub(super) id: String,
}

/// Error of a text that is not a [`ReleaseToken`].
#[derive(Debug, thiserror::Error)]
#[error("not the token of a permit ({0}); pass the text of `Permit::into_token` unchanged")]
pub struct ReleaseTokenError(serde_json::Error);

/// Agent that releases slots without anyone waiting for it.
pub(super) trait ReleaseSlots: Send + Sync {
    fn token(&self, call: Call<'static>, decided: &DecidedCall) -> ReleaseToken;

    /// Releases the slots; returns at once.
    fn release_slots(self: Arc<Self>, call: Call<'static>, decided: DecidedCall);
}

struct HeldSlots {
    /// The call and its decision. None once they are released, or their token is taken.
    slots: Option<(Call<'static>, DecidedCall)>,
    agent: Arc<dyn ReleaseSlots>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenText<'a> {
    /// Absent if it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    descriptors: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    id: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unverified: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

impl Permit {
    pub(super) fn new(call: Call<'static>, decided: DecidedCall, agent: Arc<dyn ReleaseSlots>) -> Self {
        Self(Box::new(HeldSlots { slots: Some((call, decided)), agent }))
    }

    /// Returns the token of the slots, which are no longer released by a drop.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "only this method and the drop take the slots")]
    pub fn into_token(mut self) -> ReleaseToken {
        let (call, decided) = self.0.slots.take().expect("a permit holds slots until it ends");
        self.0.agent.token(call, &decided)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((call, decided)) = self.0.slots.take() {
            self.0.agent.clone().release_slots(call, decided);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

impl ReleaseToken {
    /// Creates the token of a call, of whose decision this is the id ([`Agent::decision_id`](super::Agent::decision_id)).
    #[must_use]
    pub fn new(call: Call<'_>, id: String) -> Self {
        Self { call: call.into_owned(), id }
    }
}

impl fmt::Display for ReleaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (descriptors, unverified) = self
            .call
            .descriptors()
            .map(|(name, value)| (Cow::Borrowed(name), Cow::Borrowed(value)))
            .partition(|(name, _)| self.call.is_verified(name));
        let cost = Some(self.call.cost()).filter(|cost| *cost != 1);
        let text = TokenText { cost, descriptors, id: Cow::Borrowed(&self.id), unverified };
        f.write_str(&serde_json::to_string(&text).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for ReleaseToken {
    type Err = ReleaseTokenError;

    fn from_str(text: &str) -> Result<Self, ReleaseTokenError> {
        let text: TokenText<'static> = serde_json::from_str(text).map_err(ReleaseTokenError)?;
        let mut call = Call::new().costing(text.cost.unwrap_or(1));
        text.descriptors.into_iter().for_each(|(name, value)| call.set(name, value));
        text.unverified.into_iter().for_each(|(name, value)| call.set_unverified(name, value));
        Ok(Self { call, id: text.id.into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden text: tokens outlive the process that wrote them.
    #[test]
    fn a_token_keeps_the_call() {
        let mut call = Call::new().with("user", "u\"1").costing(2);
        call.set_unverified("tier".into(), "pro".into());
        let token = ReleaseToken::new(call, "a-1-b".to_owned());
        let text = r#"{"cost":2,"descriptors":{"user":"u\"1"},"id":"a-1-b","unverified":{"tier":"pro"}}"#;
        assert_eq!(token.to_string(), text);
        let read: ReleaseToken = text.parse().expect("a token");
        assert_eq!((read.to_string(), read), (text.to_owned(), token));
    }

    #[test]
    fn another_text_is_refused_with_its_position() {
        for text in ["", "{}", "agent-7-19a6b2-b", r#"{"id":"a-1-b","descriptors":{},"more":1}"#] {
            let error = text.parse::<ReleaseToken>().expect_err(text).to_string();
            assert!(error.contains("line 1") && error.contains("into_token"), "{error}");
        }
    }
}
