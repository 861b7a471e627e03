//! A call: one request that reached a gateway, described by names and values.

use std::borrow::Cow;

use smallvec::SmallVec;

/// The longest name of a descriptor, in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// The longest value of a descriptor, in bytes.
pub const VALUE_LEN_MAX: usize = 1_024;
/// The most descriptors that one call carries.
pub const DESCRIPTORS_LEN_MAX: usize = 32;

/// One request, as a limiter sees it: descriptors, and a cost in units of the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    descriptors: SmallVec<[(Cow<'a, str>, Cow<'a, str>); 6]>,
    cost: u64,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self { descriptors: SmallVec::new(), cost: 1 }
    }
}

impl<'a> Call<'a> {
    /// A call without descriptors, of cost 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a descriptor, or replaces the value of the one with this name.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Self {
        self.set(name.into(), value.into());
        self
    }

    /// Adds a descriptor in place, or replaces the value of the one with this name.
    pub fn set(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        match self.descriptors.iter_mut().find(|(n, _)| *n == name) {
            Some((_, old)) => *old = value,
            None => self.descriptors.push((name, value)),
        }
    }

    /// Sets the cost, in units of the quota. A cost of 0 asks without spending.
    #[must_use]
    pub fn costing(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The value of a descriptor.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.descriptors.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_ref())
    }

    /// The descriptors in the order in which they were added.
    #[must_use]
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.descriptors.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }

    /// How many units of a quota the call takes.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.cost
    }
}
