//! A call: one request that reached a gateway, described by names and values.

use std::borrow::Cow;

use smallvec::SmallVec;

/// The longest name of a descriptor, in bytes.
pub const NAME_LEN_MAX: usize = 64;
/// The longest value of a descriptor, in bytes.
pub const VALUE_LEN_MAX: usize = 1_024;
/// The most descriptors that one call carries.
pub const DESCRIPTORS_LEN_MAX: usize = 32;

/// Names and values.
pub(crate) type Descriptors<'a> = [(Cow<'a, str>, Cow<'a, str>)];

/// One request, as a limiter sees it: descriptors, and a cost in units of the quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    descriptors: SmallVec<[(Cow<'a, str>, Cow<'a, str>); 6]>,
    /// Which of them are a client's word: a bit for each of the first so many.
    claims: u64,
    cost: u64,
    id: Option<Cow<'a, str>>,
    /// Whether only rules apply that ask for these descriptors in this order, and none besides.
    entries: bool,
    /// Rules that do not apply.
    without: Vec<String>,
}

impl Default for Call<'_> {
    fn default() -> Self {
        Self { descriptors: SmallVec::new(), claims: 0, cost: 1, id: None, entries: false, without: Vec::new() }
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
        let place = self.place(name, value);
        self.claims &= !bit(place);
    }

    /// The same for what is only a client's word: it chooses counters, but no tier and no place on the allow list.
    pub fn claim(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) {
        let place = self.place(name, value);
        self.claims |= bit(place);
    }

    /// Names the request, so that a second try is not charged again.
    #[must_use]
    pub fn identified(mut self, id: impl Into<Cow<'a, str>>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Says that the descriptors are the entries of one Envoy descriptor: a rule applies only if its `match` names all of
    /// them, in this order.
    #[must_use]
    pub fn as_entries(mut self) -> Self {
        self.entries = true;
        self
    }

    /// Whether they are the entries of one Envoy descriptor.
    #[must_use]
    pub fn is_entries(&self) -> bool {
        self.entries
    }

    /// Leaves rules aside that would apply.
    #[must_use]
    pub fn without(mut self, rules: Vec<String>) -> Self {
        self.without = rules;
        self
    }

    /// The rules that are left aside.
    #[must_use]
    pub fn left_aside(&self) -> &[String] {
        &self.without
    }

    /// The name of the request, if it has one.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Its descriptors, and a bit for each of the first 64 that is only a client's word.
    pub(crate) fn parts(&self) -> (&Descriptors<'a>, u64) {
        (&self.descriptors, self.claims)
    }

    /// The same call, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> Call<'static> {
        let owned = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Call {
            descriptors: self.descriptors.into_iter().map(|(name, value)| (owned(name), owned(value))).collect(),
            claims: self.claims,
            cost: self.cost,
            id: self.id.map(owned),
            entries: self.entries,
            without: self.without,
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

    fn place(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> usize {
        if let Some(place) = self.descriptors.iter().position(|(n, _)| *n == name) {
            self.descriptors[place].1 = value;
            return place;
        }
        self.descriptors.push((name, value));
        self.descriptors.len() - 1
    }
}

/// Past the last bit all share it: a call carries at most half as many descriptors.
pub(crate) fn bit(place: usize) -> u64 {
    1 << place.min(63)
}
