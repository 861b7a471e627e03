//! Slots of a call under `concurrency`: a permit that releases them when dropped, or a token to release them elsewhere.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;

/// Slots that a call holds under `concurrency` rules.
///
/// Dropping the permit releases them: at once if the counters are in memory, else by a task on the runtime in which the agent
/// was started. The drop never waits and works on any thread. If the store does not answer the task, the slots become free
/// after the window of their quota. [`into_token`](Self::into_token) moves the release elsewhere, and
/// [`Agent::release`](super::Agent::release) waits for the answer.
#[must_use = "dropping a permit releases its slots: keep it until the call has ended"]
pub struct Permit(Box<HeldSlots>);

/// Text that releases the slots of one call, at any agent of the fleet and in any process.
///
/// The text is the body of `POST /release`: the descriptors of the call, and the time of its decision. It therefore contains
/// what the descriptors contain, such as API keys.
///
/// ```
/// use tollgate::ReleaseToken;
/// let text = r#"{"at_ms":1767323045000,"descriptors":{"user":"u1"}}"#;
/// let token: ReleaseToken = text.parse()?;
/// assert_eq!(token.to_string(), text);
/// # Ok::<(), tollgate::ReleaseTokenError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseToken {
    pub(super) call: Call<'static>,
    pub(super) decided: Timestamp,
}

/// Error of a text that is not a [`ReleaseToken`].
#[derive(Debug, thiserror::Error)]
#[error("not the token of a permit ({0}); pass the text of `Permit::into_token` unchanged")]
pub struct ReleaseTokenError(serde_json::Error);

/// Agent that releases slots without anyone waiting for it.
pub(super) trait ReleaseSlots: Send + Sync {
    /// Releases the slots; returns at once.
    fn release_slots(self: Arc<Self>, token: ReleaseToken);
}

struct HeldSlots {
    /// None once they are released, or their token is taken.
    token: Option<ReleaseToken>,
    agent: Arc<dyn ReleaseSlots>,
}

/// Text form of a token.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenText<'a> {
    at_ms: u64,
    /// Absent if it is 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    cost: Option<u64>,
    descriptors: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    unverified: BTreeMap<Cow<'a, str>, Cow<'a, str>>,
}

impl Permit {
    pub(super) fn new(token: ReleaseToken, agent: Arc<dyn ReleaseSlots>) -> Self {
        Self(Box::new(HeldSlots { token: Some(token), agent }))
    }

    /// Returns the token of the slots, which are no longer released by a drop.
    ///
    /// # Panics
    /// Never: only this method and the drop take the slots.
    #[must_use]
    pub fn into_token(mut self) -> ReleaseToken {
        self.0.token.take().expect("a permit holds slots until it ends")
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(token) = self.0.token.take() {
            self.0.agent.clone().release_slots(token);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

impl ReleaseToken {
    /// Creates the token of a call that was decided at this time ([`Decision::at`](crate::Decision::at)).
    #[must_use]
    pub fn new(call: Call<'_>, decided: Timestamp) -> Self {
        Self { call: call.into_owned(), decided }
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
        let text = TokenText { at_ms: self.decided.as_ms(), cost, descriptors, unverified };
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
        Ok(Self { call, decided: Timestamp::from_ms(text.at_ms) })
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
        let token = ReleaseToken::new(call, Timestamp::from_ms(1_767_323_045_000));
        let text = r#"{"at_ms":1767323045000,"cost":2,"descriptors":{"user":"u\"1"},"unverified":{"tier":"pro"}}"#;
        assert_eq!(token.to_string(), text);
        let read: ReleaseToken = text.parse().expect("a token");
        assert_eq!((read.to_string(), read), (text.to_owned(), token));
    }

    #[test]
    fn another_text_is_refused_with_its_position() {
        for text in ["", "{}", "agent-7-19a6b2-b", r#"{"at_ms":1,"descriptors":{},"more":1}"#] {
            let error = text.parse::<ReleaseToken>().expect_err(text).to_string();
            assert!(error.contains("line 1") && error.contains("into_token"), "{error}");
        }
    }
}
