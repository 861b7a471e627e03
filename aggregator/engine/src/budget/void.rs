//! Reasons for which an entry of the ledger changes nothing. Every reader finds the same one.

/// Reason for which an entry changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Void {
    /// It is in the ledger before.
    Repeated,
    /// Other terms are in force, or the terms are not newer.
    OtherTerms,
    /// The floors of the terms exceed the quota.
    FloorsOverQuota,
    /// The terms do not name the region, or not any more.
    UnknownRegion,
    /// There are too many counters, or the region has too many grants.
    TooMany,
    /// The request was answered, or replaced by a newer one.
    Answered,
    /// The units are not free.
    NotFree,
    /// The grant has ended.
    Ended,
    /// A later renewal stands before the expiry.
    Renewed,
}
