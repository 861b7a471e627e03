//! Requests of a region that were void, such as those beyond the maximum number of counters: each one is repeated later than the one
//! before.

use tollgate_core::rules::Generation;

/// Time after which the second void request is repeated, in ms; the first one is repeated at once, because the terms may just have
/// changed. It doubles with each one, up to a term.
const REPEATED_AFTER_MS: u64 = 1_000;

/// Void requests for a counter, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct VoidRequests {
    number: u32,
    facts: RequestFacts,
}

/// Facts of the ledger that a repetition waits for: with others it may be valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestFacts {
    pub(super) generation: Generation,
    pub(super) free: u64,
}

impl VoidRequests {
    /// Returns the void requests with a further one.
    pub(super) fn with(before: Option<Self>, facts: RequestFacts) -> Self {
        let number = before.filter(|before| before.facts == facts).map_or(0, |before| before.number);
        Self { number: number.saturating_add(1), facts }
    }

    /// Returns the time from the last request to its repetition, in ms.
    pub(super) fn repeated_after_ms(self, facts: RequestFacts, term_ms: u64) -> u64 {
        if self.facts != facts || self.number < 2 {
            return 0;
        }
        REPEATED_AFTER_MS.saturating_mul(1 << (self.number - 2).min(32)).min(term_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_request_is_repeated_later_each_time() {
        let facts = RequestFacts { generation: 1, free: 0 };
        let mut void = None;
        for (number, expected_ms) in [(1, 0), (2, 1_000), (3, 2_000), (4, 4_000), (5, 8_000), (6, 12_000), (7, 12_000)]
        {
            let last = VoidRequests::with(void, facts);
            assert_eq!(last.repeated_after_ms(facts, 12_000), expected_ms, "{number}");
            void = Some(last);
        }
        for other in [RequestFacts { generation: 2, ..facts }, RequestFacts { free: 1, ..facts }] {
            let last = void.expect("requests were void");
            assert_eq!(last.repeated_after_ms(other, 12_000), 0, "{other:?}");
            assert_eq!(VoidRequests::with(void, other).number, 1, "{other:?}");
        }
    }
}
