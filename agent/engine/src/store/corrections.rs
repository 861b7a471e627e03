//! Corrections that an agent made without the store: the store does not know their requests, so the agent remembers them.
//!
//! A request is forgotten past the cap, the oldest first: a repetition of one of those is made again.

use std::collections::{HashMap, VecDeque};

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::RequestId;

const REQUESTS_LEN_MAX: usize = 65_536;

/// Requests of corrections that were made without the store.
#[derive(Debug, Default)]
pub(crate) struct Corrections {
    /// Instant of the newest decision that was corrected under each request.
    known: HashMap<RequestId, Timestamp>,
    /// Known requests, the oldest first.
    order: VecDeque<RequestId>,
}

impl Corrections {
    /// Returns true if this decision was corrected under the request, or a later one.
    pub(crate) fn contains(&self, request: RequestId, decided: Timestamp) -> bool {
        self.known.get(&request).is_some_and(|newest| decided <= *newest)
    }

    pub(crate) fn add(&mut self, request: RequestId, decided: Timestamp) {
        if let Some(newest) = self.known.get_mut(&request) {
            *newest = decided.max(*newest);
            return;
        }
        self.known.insert(request, decided);
        self.order.push_back(request);
        if self.order.len() > REQUESTS_LEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    #[test]
    fn the_newest_requests_are_remembered() {
        let mut corrections = Corrections::default();
        (0..=REQUESTS_LEN_MAX as u128).for_each(|id| corrections.add(RequestId::from_u128(id), at(1)));
        let contains = |id| corrections.contains(RequestId::from_u128(id), at(1));
        assert!(!contains(0) && contains(1));
    }

    #[test]
    fn a_later_decision_under_the_same_request_has_a_correction_of_its_own() {
        let (mut corrections, id) = (Corrections::default(), RequestId::from_u128(1));
        corrections.add(id, at(5));
        assert!(corrections.contains(id, at(4)) && corrections.contains(id, at(5)) && !corrections.contains(id, at(6)));
        corrections.add(id, at(9));
        assert!(corrections.contains(id, at(6)) && !corrections.contains(id, at(10)));
    }
}
