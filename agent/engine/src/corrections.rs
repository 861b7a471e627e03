//! Corrections that an agent made without the store: the store does not know their requests, so the agent remembers them.
//!
//! A request is forgotten past the cap, the oldest first: a repetition of one of those is made again.

use std::collections::{HashSet, VecDeque};

use tollgate_core::counter::RequestId;

const REQUESTS_LEN_MAX: usize = 65_536;

/// Requests of corrections that were made without the store.
#[derive(Debug, Default)]
pub(crate) struct Corrections {
    known: HashSet<RequestId>,
    /// Known requests, the oldest first.
    order: VecDeque<RequestId>,
}

impl Corrections {
    pub(crate) fn contains(&self, request: RequestId) -> bool {
        self.known.contains(&request)
    }

    /// Forgets a request whose call is charged again.
    pub(crate) fn forget(&mut self, request: RequestId) {
        self.known.remove(&request);
    }
}

impl Extend<RequestId> for Corrections {
    fn extend<I: IntoIterator<Item = RequestId>>(&mut self, requests: I) {
        for request in requests {
            if !self.known.insert(request) {
                continue;
            }
            self.order.push_back(request);
            if self.order.len() > REQUESTS_LEN_MAX
                && let Some(oldest) = self.order.pop_front()
            {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_requests_are_remembered() {
        let mut corrections = Corrections::default();
        corrections.extend((0..=REQUESTS_LEN_MAX as u128).map(RequestId::from_u128));
        assert!(!corrections.contains(RequestId::from_u128(0)) && corrections.contains(RequestId::from_u128(1)));
    }
}
