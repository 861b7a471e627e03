//! A call: one request that reached a gateway, described by names and values.
//!
//! A call is a plain value. `rules::ResolvedCall` adds the descriptors that a rule set derives from it, and
//! `rules::MatchScope` restricts the rules that may apply to it; neither is part of the call. Extraction from an HTTP
//! request is the work of the agent.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::trace_context::{CallTrace, TraceContext};

/// Maximum length of a descriptor's name, in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// Maximum length of a descriptor's value, in bytes.
pub const VALUE_LEN_MAX: usize = 1_024;
/// Maximum cost of a call from outside. All JSON parsers represent whole numbers up to this one exactly.
pub const COST_MAX: u64 = 1 << 53;
/// Maximum number of descriptors of one call.
pub const DESCRIPTORS_LEN_MAX: usize = 32;

/// Reason why a descriptor from outside is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// An empty or a long name.
    #[error("the name of a descriptor has {0} bytes; it must have 1 to {NAME_LEN_MAX}")]
    NameLen(usize),
    /// A long value, and its name.
    #[error("the value of `{0}` has {1} bytes; it may have {VALUE_LEN_MAX}")]
    ValueLen(String, usize),
    /// A second value of a name.
    #[error("descriptor `{0}` appears twice")]
    Twice(String),
    /// More descriptors than a call may have.
    #[error("more than {DESCRIPTORS_LEN_MAX} descriptors")]
    TooMany,
}

/// Names and values in the order in which they were added.
pub(crate) type Descriptors<'a> = [(Cow<'a, str>, Cow<'a, str>)];

/// One request: descriptors, a cost in units of the quota (1 by default), and an optional request id.
///
/// The rules name the descriptors that they need, such as `api_key`, `ip` or `endpoint`. A rule applies only to calls
/// that have all descriptors of its `per`, so a name that is spelled differently here and there limits nothing.
///
/// ```
/// use tollgate_core::call::Call;
/// let call = Call::new().with("api_key", "k1").with("endpoint", "/search").costing(5).identified("request-17");
/// assert_eq!((call.get("api_key"), call.cost(), call.id()), (Some("k1"), 5, Some("request-17")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    descriptors: SmallVec<[(Cow<'a, str>, Cow<'a, str>); 6]>,
    /// Bit set of the unverified descriptors, by position.
    unverified: u64,
    cost: u64,
    id: Option<Cow<'a, str>>,
    trace: CallTrace,
}

impl Default for Call<'_> {
    #[inline]
    fn default() -> Self {
        Self { descriptors: SmallVec::new(), unverified: 0, cost: 1, id: None, trace: CallTrace::Untold }
    }
}

impl<'a> Call<'a> {
    /// Creates a call without descriptors, of cost 1.
    #[inline]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a verified descriptor, or replaces the value of the one with this name.
    #[expect(clippy::inline_always, reason = "a call is moved otherwise, which waits until it is written")]
    #[inline(always)]
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        let (name, value) = (name.into(), value.into());
        if self.descriptors.is_empty() {
            self.descriptors.push((name, value));
        } else {
            self.set(name, value);
        }
        self
    }

    /// Adds a verified descriptor that comes from outside.
    ///
    /// # Errors
    /// If its name or value has a wrong length, if the call has a descriptor of this name, or if it has
    /// [`DESCRIPTORS_LEN_MAX`].
    pub fn add(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> Result<(), DescriptorError> {
        if name.is_empty() || name.len() > NAME_LEN_MAX {
            return Err(DescriptorError::NameLen(name.len()));
        }
        if value.len() > VALUE_LEN_MAX {
            return Err(DescriptorError::ValueLen(name.into_owned(), value.len()));
        }
        if self.get(&name).is_some() {
            return Err(DescriptorError::Twice(name.into_owned()));
        }
        if self.descriptors.len() == DESCRIPTORS_LEN_MAX {
            return Err(DescriptorError::TooMany);
        }
        self.set(name, value);
        Ok(())
    }

    /// Adds a verified descriptor in place, or replaces the value of the one with this name.
    pub fn set(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        let position = self.put(name, value);
        self.unverified &= !bit(position);
    }

    /// Adds a descriptor that a client wrote and that nobody has verified. It selects counters, but no tier and no entry of
    /// the allow list.
    pub fn set_unverified(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        let position = self.put(name, value);
        self.unverified |= bit(position);
    }

    /// Sets the request id. A call and its retries with the same id are charged once within the window of a rule.
    #[must_use]
    pub fn identified(mut self, id: impl Into<Cow<'a, str>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Returns the request id.
    #[must_use]
    #[inline]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Sets the trace of the request, by which its record in the log of calls is found.
    pub fn set_trace(&mut self, trace: impl Into<CallTrace>) {
        self.trace = trace.into();
    }

    /// Returns the trace of the request, if it is sampled.
    #[must_use]
    #[inline]
    pub fn trace(&self) -> Option<TraceContext> {
        if let CallTrace::Sampled(trace) = &self.trace { Some(**trace) } else { None }
    }

    /// Returns the trace of the request, as the gateway tells it.
    #[must_use]
    pub fn told_trace(&self) -> &CallTrace {
        &self.trace
    }

    /// Returns the descriptors and the bit set of those that are unverified.
    #[inline]
    pub(crate) fn parts(&self) -> (&Descriptors<'a>, u64) {
        (&self.descriptors, self.unverified)
    }

    /// Returns the same call without borrowed text.
    #[must_use]
    pub fn into_owned(self) -> Call<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Call {
            descriptors: self.descriptors.into_iter().map(|(name, value)| (owned(name), owned(value))).collect(),
            unverified: self.unverified,
            cost: self.cost,
            id: self.id.map(owned),
            trace: self.trace,
        }
    }

    /// Sets the cost, in units of the quota. A call of cost 0 is decided without being charged.
    #[must_use]
    pub fn costing(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Returns the value of a descriptor.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.descriptors.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_ref())
    }

    /// Returns true if the call has this descriptor and its value is verified.
    #[must_use]
    pub fn is_verified(&self, name: &str) -> bool {
        let position = self.descriptors.iter().position(|(n, _)| n == name);
        position.is_some_and(|position| self.unverified & bit(position) == 0)
    }

    /// Returns the descriptors in the order in which they were added.
    #[must_use]
    #[inline]
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.descriptors.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// Returns the cost, in units of the quota.
    #[must_use]
    #[inline]
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// Changes the value of a descriptor, if the call has it. A longer value is cut to [`VALUE_LEN_MAX`] bytes.
    pub(crate) fn change(&mut self, name: &str, change: impl FnOnce(Cow<'a, str>) -> Cow<'a, str>) {
        if let Some((_, value)) = self.descriptors.iter_mut().find(|(known, _)| known == name) {
            *value = truncated(change(std::mem::take(value)));
        }
    }

    fn put(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> usize {
        if let Some(position) = self.descriptors.iter().position(|(n, _)| *n == name) {
            self.descriptors[position].1 = value;
            return position;
        }
        self.descriptors.push((name, value));
        self.descriptors.len() - 1
    }
}

/// Returns a value of at most [`VALUE_LEN_MAX`] bytes.
#[doc(hidden)]
#[must_use]
pub fn truncated(value: Cow<'_, str>) -> Cow<'_, str> {
    let end = value.floor_char_boundary(VALUE_LEN_MAX);
    match value {
        Cow::Borrowed(value) => Cow::Borrowed(&value[..end]),
        Cow::Owned(mut value) => {
            value.truncate(end);
            Cow::Owned(value)
        }
    }
}

/// Returns the bit of a position. All positions past the last bit share it; a call has at most half as many descriptors.
pub(crate) fn bit(position: usize) -> u64 {
    1 << position.min(63)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_from_outside_is_within_the_limits_of_a_call() {
        let long = |len: usize| "x".repeat(len);
        let mut call = Call::new();
        assert_eq!(call.add(long(NAME_LEN_MAX).into(), long(VALUE_LEN_MAX).into()), Ok(()));
        for (name, value, error) in [
            (String::new(), 1, DescriptorError::NameLen(0)),
            (long(NAME_LEN_MAX + 1), 1, DescriptorError::NameLen(65)),
            ("n".to_owned(), VALUE_LEN_MAX + 1, DescriptorError::ValueLen("n".to_owned(), 1_025)),
            (long(NAME_LEN_MAX), 1, DescriptorError::Twice(long(NAME_LEN_MAX))),
        ] {
            assert_eq!(call.add(name.into(), long(value).into()), Err(error));
        }
        let names = (1..DESCRIPTORS_LEN_MAX).map(|number| format!("d{number}"));
        names.for_each(|name| assert_eq!(call.add(name.into(), "v".into()), Ok(())));
        assert_eq!(call.add("last".into(), "v".into()), Err(DescriptorError::TooMany));
        assert_eq!(call.descriptors().len(), DESCRIPTORS_LEN_MAX);
    }
}
