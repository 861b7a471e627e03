//! The traffic of a run: the instants of its requests, their callers, and the agents that they reach.

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::window::Window;
use tollgate_sim::{SimSettings, Workload};

use super::access_log::ARRIVALS;
use super::rules;
use crate::invariants::START;

/// Minimum number of calls of a run, and maximum number in 10 s.
const CALLS_MIN: usize = 500;
const CALLS_MAX: u64 = 1_500;
/// Maximum number of times that a request is made at once.
const COPIES_MAX: usize = 6;
/// Maximum time between two steady requests, in ms.
const GAP_MS_MAX: u64 = 30;
/// Time behind the end of a sub-window in which an adversary calls, in ms: a slow answer, and the drift of the store.
const EDGE_MS: u64 = 16;
/// Bounds of the number of its calls there.
const BEHIND_EDGE_MAX: [usize; 2] = [6, 24];
/// Number of calls that are replayed from one place of a log, and their longest gap, in ms.
const REPLAYED_LEN: usize = 200;
const REPLAYED_GAP_MS_MAX: u64 = 500;
/// Rank exponents of callers by Zipf's law.
const SKEWS: [f64; 2] = [0.8, 1.3];
/// A caller that has one counter at `/hot`.
const ONE_COUNTER_CALLER: usize = 10;
/// Endpoints that an adversary calls, and the rules whose edges it knows.
const EDGES: [(&str, &str); 4] = [("/hot", "hot"), ("/hot", "hot"), ("/hot", "hot"), ("/about", "about")];

/// A request, and the agent that it reaches.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) at_ms: u64,
    pub(crate) agent: usize,
    pub(crate) calls: Vec<Call<'static>>,
}

/// Way in which requests follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// With gaps of any length up to a maximum.
    Steady,
    Poisson,
    /// Many for a while, then none.
    OnOff,
    /// A steady trickle, and now and then many at once on one counter.
    Bursts,
    /// An adversary calls when the sub-windows of a rule end.
    Edges,
    /// All agents get many calls on one counter at once, each time that it has room again.
    Crowds,
    /// A part of a real access log, whose gaps are shorter here.
    Replayed,
}

/// The sources of a run's requests.
pub(crate) struct Traffic {
    pattern: Pattern,
    /// True if each caller always reaches the same agent.
    is_sticky: bool,
    workload: Workload,
    requests: Vec<Request>,
    calls: usize,
}

impl Traffic {
    /// Draws the requests of a run that lasts at least so long, in the order of their instants.
    pub(crate) fn draw(rng: &mut Rng, settings: &SimSettings, run_ms: u64) -> (Pattern, Vec<Request>) {
        let patterns = [
            Pattern::Steady,
            Pattern::Poisson,
            Pattern::OnOff,
            Pattern::Bursts,
            // Few of the runs with an adversary find a lease that ends late.
            Pattern::Edges,
            Pattern::Edges,
            Pattern::Crowds,
            Pattern::Replayed,
        ];
        let pattern = patterns[rng.usize(0..patterns.len())];
        let callers = rng.u32(1..12);
        let (callers, skew) = if rng.bool() { (callers, 0.0) } else { (callers * 6, SKEWS[rng.usize(0..SKEWS.len())]) };
        let mut workload = Workload::new(rng.u64(..), callers, skew);
        if is_extended(settings.seed) {
            workload = workload.counting_each();
        }
        let is_sticky = rng.u8(0..3) == 0;
        let mut traffic = Self { pattern, is_sticky, workload, requests: Vec::new(), calls: 0 };
        let (mut at_ms, calls_max) = (0, usize::try_from(CALLS_MAX * run_ms / 10_000).unwrap_or(usize::MAX));
        while (at_ms < run_ms || traffic.calls < CALLS_MIN) && traffic.calls < calls_max {
            at_ms = traffic.go_on(rng, settings, at_ms);
        }
        traffic.requests.sort_by_key(|request| request.at_ms);
        (pattern, traffic.requests)
    }

    /// Adds the next requests after an instant. Returns the instant from which to go on.
    fn go_on(&mut self, rng: &mut Rng, settings: &SimSettings, from_ms: u64) -> u64 {
        match self.pattern {
            Pattern::Steady => {
                let at_ms = from_ms + rng.u64(0..=GAP_MS_MAX);
                self.any(rng, settings, at_ms)
            }
            Pattern::Poisson => {
                let at_ms = from_ms + poisson_gap_ms(rng, GAP_MS_MAX / 2);
                self.any(rng, settings, at_ms)
            }
            Pattern::Replayed => {
                let first = rng.usize(0..ARRIVALS.len() - REPLAYED_LEN);
                let (speed, mut at_ms) = (rng.u64(10..100), from_ms);
                for arrival in &ARRIVALS[first..first + REPLAYED_LEN] {
                    // The log has whole seconds, so most of the calls of one come together.
                    at_ms += (arrival.gap_ms / speed).min(REPLAYED_GAP_MS_MAX);
                    let caller = arrival.caller % self.workload.callers();
                    self.of(rng, settings, at_ms, caller);
                }
                at_ms
            }
            Pattern::OnOff => {
                let (on_until, mut at_ms) = (from_ms + rng.u64(100..800), from_ms);
                while at_ms < on_until {
                    at_ms += poisson_gap_ms(rng, 6);
                    self.any(rng, settings, at_ms);
                }
                on_until + rng.u64(200..2_000)
            }
            Pattern::Bursts => {
                let mut at_ms = from_ms;
                for _ in 0..rng.usize(5..40) {
                    at_ms += rng.u64(0..=GAP_MS_MAX);
                    self.any(rng, settings, at_ms);
                }
                let (caller, endpoint) = (self.workload.caller(), self.workload.endpoint());
                // Through one agent, or through all of them.
                let agent = rng.bool().then(|| rng.usize(0..settings.agents.len()));
                let width_ms = rng.u64(1..20);
                for _ in 0..rng.usize(10..40) {
                    let agent = agent.unwrap_or_else(|| rng.usize(0..settings.agents.len()));
                    self.one(settings, at_ms + rng.u64(0..width_ms), agent, caller, endpoint);
                }
                at_ms + width_ms
            }
            Pattern::Edges => {
                let (endpoint, rule) = EDGES[rng.usize(0..EDGES.len())];
                let caller = if rng.u8(0..4) > 0 { ONE_COUNTER_CALLER } else { self.workload.caller() };
                let agent = rng.usize(0..settings.agents.len());
                // Few calls leave quota, so a lease has units left at its end; many show that a sub-window has begun.
                let behind_max = BEHIND_EDGE_MAX[rng.usize(0..BEHIND_EDGE_MAX.len())];
                let mut at_ms = from_ms;
                for _ in 0..rng.usize(4..12) {
                    at_ms = self.until_edge(rng, settings, at_ms, (agent, caller, endpoint), window_of(rule));
                    for _ in 0..rng.usize(behind_max / 3..behind_max) {
                        self.one(settings, at_ms + rng.u64(0..EDGE_MS), agent, caller, endpoint);
                    }
                    at_ms += EDGE_MS;
                }
                at_ms
            }
            Pattern::Crowds => {
                let (window, agents) = (window_of("hot"), settings.agents.len());
                let begin = window.start_of(window.sub_window(START.plus_ms(from_ms)) + 1).ms_since(START);
                let at_ms = begin + rng.u64(20..300);
                let width_ms = rng.u64(1..10);
                for _ in 0..rng.usize(20..80) {
                    self.one(settings, at_ms + rng.u64(0..width_ms), rng.usize(0..agents), ONE_COUNTER_CALLER, "/hot");
                }
                at_ms + width_ms
            }
        }
    }

    /// Adds a stream of calls that ends a while before the sub-window of an instant. Returns the end of the sub-window.
    fn until_edge(
        &mut self,
        rng: &mut Rng,
        settings: &SimSettings,
        from_ms: u64,
        (agent, caller, endpoint): (usize, usize, &'static str),
        window: Window,
    ) -> u64 {
        let edge = window.start_of(window.sub_window(START.plus_ms(from_ms)) + 1).ms_since(START);
        let (quiet_from, mut at_ms) =
            (edge.saturating_sub(rng.u64(window.sub_window_ms() / 8..=window.sub_window_ms() / 2)), from_ms);
        while at_ms < quiet_from {
            self.one(settings, at_ms, agent, caller, endpoint);
            at_ms += 1 + poisson_gap_ms(rng, window.sub_window_ms() / 10);
        }
        edge
    }

    /// Adds a request of any caller. Returns its instant.
    fn any(&mut self, rng: &mut Rng, settings: &SimSettings, at_ms: u64) -> u64 {
        let caller = self.workload.caller();
        self.of(rng, settings, at_ms, caller)
    }

    /// Adds a request of a caller. Returns its instant.
    fn of(&mut self, rng: &mut Rng, settings: &SimSettings, at_ms: u64, caller: usize) -> u64 {
        let agents = settings.agents.len();
        let agent = if self.is_sticky { caller % agents } else { rng.usize(0..agents) };
        let calls = self.workload.request(group(settings, agent), caller);
        // Now and then, a client makes the same request several times at once.
        let copies = if rng.u8(0..8) == 0 { rng.usize(2..=COPIES_MAX) } else { 1 };
        self.calls += calls.len() * copies;
        self.requests.extend((0..copies).map(|_| Request { at_ms, agent, calls: calls.clone() }));
        at_ms
    }

    fn one(&mut self, settings: &SimSettings, at_ms: u64, agent: usize, caller: usize, endpoint: &'static str) {
        let call = self.workload.call(group(settings, agent), caller, endpoint);
        self.calls += 1;
        self.requests.push(Request { at_ms, agent, calls: vec![call] });
    }
}

/// Returns true if the plan of a seed has the hazards and endpoints that were added last. The others keep the plans that they had
/// before, because some of them have found a mistake.
pub(super) fn is_extended(seed: u64) -> bool {
    seed % 4 == 3
}

/// Returns the group of an agent's callers: those of an agent with its own table are no other agent's.
fn group(settings: &SimSettings, agent: usize) -> u8 {
    u8::from(settings.agents[agent].owns_table)
}

/// Draws the time between two events of a Poisson process, rounded down.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "short times in whole ms")]
#[expect(clippy::cast_precision_loss, reason = "short times in whole ms")]
fn poisson_gap_ms(rng: &mut Rng, mean_ms: u64) -> u64 {
    (-(1.0 - rng.f64()).ln() * mean_ms as f64) as u64
}

/// Returns the window of a rule under the first rules.
fn window_of(rule: &str) -> Window {
    let rules = rules::generation(rules::FIRST);
    let named = rules.rules.iter().find(|named| &*named.name == rule);
    named.and_then(|rule| rule.policy.as_ref()).expect("a rule with a policy").window
}
