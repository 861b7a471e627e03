//! Primaries of a store: servers, each with its replicas, that hold the counters of some slots.

/// Maximum number of primaries that an agent knows. The cluster specification of Redis suggests at most 1,000 nodes.
pub const PRIMARIES_MAX: usize = 128;

/// Index of a primary of the store, with its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PrimaryIndex(u8);

impl PrimaryIndex {
    /// Index of the only primary of a store that has one.
    pub const ONLY: Self = Self(0);

    /// Returns the index of a primary; none past [`PRIMARIES_MAX`].
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < PRIMARIES_MAX).map(Self)
    }

    /// Returns the place of the primary in a list of all.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}
