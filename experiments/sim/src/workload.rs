//! The workload of a simulation: callers, endpoints, costs, request ids, and what becomes of calls after their decisions.

use fastrand::Rng;
use tollgate::{Call, DecidedCall};
use tollgate_core::counter::DigestKey;

use super::agent::Correction;
use super::observation::AnsweredCall;

/// Endpoints; the last one has nearly half of all calls.
const ENDPOINTS: [&str; 7] = ["/login", "/search/all", "/about", "/other", "/hot", "/hot", "/hot"];
/// Endpoint whose only rule counts each call.
const COUNTED: &str = "/count";
/// Number of calls of which one is to it, where it is called.
const CALLS_PER_COUNTED: u8 = 12;
/// Number of different request ids; so few that some are repeated.
const REQUESTS: u8 = 30;

/// A source of calls.
#[derive(Clone, Debug)]
pub struct Workload {
    rng: Rng,
    /// Sums of the weights of the callers, up to each of them.
    callers: Vec<f64>,
    /// Source of the calls to the endpoint whose only rule counts each call, if there are any.
    counted: Option<Rng>,
}

impl Workload {
    /// Returns the workload of a seed, of this number of callers. The caller of rank r calls as often as r to the power of
    /// `-skew`: all of them alike at 0, by Zipf's law about 1.
    #[must_use]
    pub fn new(seed: u64, callers: u32, skew: f64) -> Self {
        let mut sum = 0.0;
        let sums = (1..=callers.max(1)).map(|rank| {
            sum += f64::from(rank).powf(-skew);
            sum
        });
        Self { callers: sums.collect(), rng: Rng::with_seed(seed), counted: None }
    }

    /// Lets some calls be to an endpoint whose only rule counts each call. Nothing else about the calls changes.
    #[must_use]
    pub fn counting_each(mut self) -> Self {
        self.counted = Some(Rng::with_seed(self.callers.len() as u64));
        self
    }

    /// Returns the number of callers.
    #[must_use]
    pub fn callers(&self) -> usize {
        self.callers.len()
    }

    /// Draws a caller.
    pub fn caller(&mut self) -> usize {
        let drawn = self.rng.f64() * self.callers.last().copied().unwrap_or_default();
        self.callers.partition_point(|sum| *sum <= drawn).min(self.callers.len() - 1)
    }

    /// Draws an endpoint.
    pub fn endpoint(&mut self) -> &'static str {
        let drawn = ENDPOINTS[self.rng.usize(0..ENDPOINTS.len())];
        let is_counted = self.counted.as_mut().is_some_and(|rng| rng.u8(0..CALLS_PER_COUNTED) == 0);
        if is_counted { COUNTED } else { drawn }
    }

    /// Returns the calls of the next request of a caller: mostly one, sometimes several that are charged all or none, of other
    /// callers, too. `group` tells the callers of one part of the fleet from those of another.
    pub fn request(&mut self, group: u8, caller: usize) -> Vec<Call<'static>> {
        let endpoint = self.endpoint();
        let first = self.call(group, caller, endpoint);
        match self.rng.u8(0..20) {
            0 | 1 => {
                let mut calls = vec![first];
                for _ in 0..self.rng.usize(1..3) {
                    let (caller, endpoint) = (self.caller(), self.endpoint());
                    calls.push(self.call(group, caller, endpoint));
                }
                calls
            }
            2 => vec![first.identified(format!("request-{group}-{}", self.rng.u8(0..REQUESTS)))],
            _ => vec![first],
        }
    }

    /// Returns a call of a caller.
    pub fn call(&mut self, group: u8, caller: usize, endpoint: &'static str) -> Call<'static> {
        let rng = &mut self.rng;
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
