//! The workload of a simulation: callers, endpoints, costs, request ids, and what becomes of calls after their decisions.

use fastrand::Rng;
use tollgate::{Call, DecidedCall};
use tollgate_core::counter::DigestKey;

use super::agent::Correction;
use super::observation::AnsweredCall;

/// Endpoints; the last one has nearly half of all calls.
const ENDPOINTS: [&str; 7] = ["/login", "/search/all", "/about", "/other", "/hot", "/hot", "/hot"];
/// Number of different request ids; so few that some are repeated.
const REQUESTS: u8 = 30;

/// A source of calls.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: Rng,
    callers: usize,
}

impl Workload {
    /// Returns the workload of a seed, of this number of callers.
    #[must_use]
    pub fn new(seed: u64, callers: usize) -> Self {
        Self { rng: Rng::with_seed(seed), callers }
    }

    /// Returns the calls of the next request: mostly one, sometimes several that are charged all or none. `group` tells the
    /// callers of one part of the fleet from those of another.
    pub fn request(&mut self, group: u8) -> Vec<Call<'static>> {
        match self.rng.u8(0..20) {
            0 | 1 => (0..self.rng.usize(2..4)).map(|_| self.call(group)).collect(),
            2 => vec![self.call(group).identified(format!("request-{group}-{}", self.rng.u8(0..REQUESTS)))],
            _ => vec![self.call(group)],
        }
    }

    fn call(&mut self, group: u8) -> Call<'static> {
        let rng = &mut self.rng;
        let caller = rng.usize(0..self.callers);
        let endpoint = ENDPOINTS[rng.usize(0..ENDPOINTS.len())];
        let call = Call::new().with("endpoint", endpoint).with("ip", format!("10.0.{group}.{caller}"));
        let call = call.costing(rng.u64(1..4));
        if rng.u8(0..5) == 0 { call } else { call.with("api_key", format!("key-{group}-{caller}")) }
    }

    /// Returns what becomes of a call, if anything: it cost more, it cost less, or it has ended.
    pub fn correction(&mut self, answered: &AnsweredCall<'_>) -> Option<Correction> {
        let rng = &mut self.rng;
        // All decisions on a request with an id are one charge, of which the bookkeeping of the tests knows nothing.
        if !answered.is_admitted || answered.call.id().is_some() {
            return None;
        }
        let decided = DecidedCall::new(&DigestKey::default(), &answered.call, &answered.decision)?;
        let cost = i64::try_from(answered.call.cost()).unwrap_or(i64::MAX);
        match rng.u8(0..12) {
            0 => Some(Correction::Settle(rng.i64(1..4), None)),
            1 => Some(Correction::Settle(-rng.i64(1..=cost), Some(decided))),
            2 | 3 => Some(Correction::Release(decided)),
            _ => None,
        }
    }
}
