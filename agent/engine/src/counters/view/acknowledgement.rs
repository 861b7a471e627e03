//! The facts in the store's answer to a charge by which an agent sees that the store has [lost units](super::lost_units).

use tollgate_core::clock::Timestamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) at: Timestamp,
    /// Birth of the stored counter; time 0 if it is unknown.
    pub(crate) born: Timestamp,
    /// Instant of the previous step on the counter.
    pub(crate) previous: Timestamp,
    /// Instant up to which acknowledged charges prove nothing, because the store's clock was set back.
    pub(crate) proves_after: Timestamp,
    /// Instant up to which the charges that this agent remembers prove nothing. The agent forgets them after a large
    /// step back of the clock.
    pub(crate) own_proves_after: Timestamp,
    /// Instant before which the whole store has lost units; time 0 if no loss is known.
    pub(crate) lost_before: Timestamp,
    /// Count with which a counter without a signal opens, because it may have had so many units before the loss.
    pub(crate) floor: u64,
}

impl Acknowledgement {
    /// Returns true if instants of charges can be compared with those of the stored counter.
    pub(super) fn is_comparable(&self) -> bool {
        self.born > Timestamp::default()
    }
}
