//! Callers of a rule with a global scope: the instants of their calls, and the agents that they reach.

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::counter::{CounterId, DigestKey};

use crate::scenario::rules;
use crate::scenario::traffic::Request;

/// Number of different keys; calls with a key are under a rule of their region, too.
const KEYS: u32 = 40;

/// Time in which a caller calls at a mean rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallerTimes {
    pub(super) caller: u8,
    pub(super) from_ms: u64,
    pub(super) until_ms: u64,
    pub(super) per_s: u64,
}

/// Draws the requests of callers in the order of their instants.
pub(super) fn requests(rng: &mut Rng, agents: usize, run_ms: u64, callers: &[CallerTimes]) -> Vec<Request> {
    let mut requests = Vec::new();
    for times in callers {
        let mut at_ms = times.from_ms;
        loop {
            at_ms += gap_ms(rng, times.per_s);
            if at_ms >= times.until_ms.min(run_ms) {
                break;
            }
            let call = call(times.caller);
            let call = match rng.u8(0..10) {
                0 | 1 => call.with("api_key", format!("key-{}", rng.u32(0..KEYS))),
                2 => call.identified(format!("planet-{}-{}", times.caller, rng.u8(0..30))),
                _ => call,
            };
            requests.push(Request { at_ms, agent: rng.usize(0..agents), calls: vec![call] });
        }
    }
    requests.sort_by_key(|request| request.at_ms);
    requests
}

/// Returns a call of a caller.
pub(super) fn call(caller: u8) -> Call<'static> {
    Call::new().with("endpoint", "/planet").with("ip", format!("10.0.5.{caller}"))
}

/// Returns the counter of a caller.
pub(super) fn counter_of(caller: u8) -> CounterId {
    DigestKey::default().counter(rules::GLOBAL, [&*format!("10.0.5.{caller}")])
}

/// Draws the time between two calls of a Poisson process, in ms.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "short times in whole ms")]
#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn gap_ms(rng: &mut Rng, per_s: u64) -> u64 {
    (-(1.0 - rng.f64()).ln() * 1_000.0 / per_s as f64).round() as u64
}
