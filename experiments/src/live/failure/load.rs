//! The load: every call is sent at its due instant, regardless of earlier answers (an open loop).
//!
//! Honest callers ask for half of their quota. Abusers ask for several times theirs: one without a break, whose window is
//! always full, and three in bursts, one of which begins with an empty window every 2 s. The calls of a caller go to the
//! agents in turn. Within its part of a second each call has a random instant, so no two callers stay in step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tollgate::{Agent, Call, Decision};
use tollgate_core::clock::Stopwatch;

use super::fleet::FaultedFleet;
use super::limiting::{CallMix, Limiting};
use super::settings::{AGENTS, FLEET_SIZE};

/// Calls per second of each demand while it lasts; multiples of the number of agents, so that each agent gets the same number.
const HONEST_RATE: u32 = 9;
pub(super) const STEADY_RATE: u32 = 81;
pub(super) const BURST_RATE: u32 = 120;
/// Calls from one call with an id to the next one of the same caller, where some have one.
const IDENTIFIED_EVERY: usize = 4;
/// The bursting callers have their bursts in turn.
const BURST_SECONDS: u64 = 2;
const BURSTING: u64 = 3;
/// Retries of a denied call: at each agent one after that agent has noticed the fault. An agent notices it by its own requests,
/// so each of them may deny the call once.
pub(super) const RETRIES_MAX: usize = AGENTS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Honest,
    Steady,
    /// Bursts, with the number of the caller among those that have them.
    Bursts(u64),
}

#[derive(Clone, Debug)]
pub(super) struct FaultedCaller {
    pub(super) fleet: usize,
    pub(super) limiting: Limiting,
    pub(super) mix: CallMix,
    demand: Demand,
    key: Arc<str>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) caller: usize,
    pub(super) allowed: bool,
    /// Time of the decision, in ms since the epoch.
    pub(super) at_ms: u64,
    /// Instant at which the second rule counts it.
    pub(super) second_at_ms: u64,
    /// True if it was decided because Redis did not answer.
    pub(super) is_degraded: bool,
    pub(super) took: Duration,
    /// Delay of the call after its due instant.
    pub(super) late: Duration,
    /// Number of times that the call was denied before: the caller repeats it after the time that each denial gave, at the next
    /// agent.
    pub(super) retries: usize,
}

pub(super) struct FailureLoad {
    stop: Arc<AtomicBool>,
    timer: JoinHandle<()>,
    answers: Arc<Mutex<Vec<Answered>>>,
}

impl Answered {
    /// Returns a decision, without its call and its times.
    pub(super) fn of(decision: &Decision) -> Self {
        let at_ms = decision.at.as_ms();
        let second_ms = decision.counted_after_ms.first().copied().unwrap_or_default();
        Self {
            caller: 0,
            allowed: decision.allowed,
            at_ms,
            second_at_ms: at_ms.saturating_add_signed(second_ms),
            is_degraded: decision.source.is_degraded(),
            took: Duration::ZERO,
            late: Duration::ZERO,
            retries: 0,
        }
    }
}

#[cfg(test)]
impl Answered {
    /// Returns an admission by Redis.
    pub(super) fn at(caller: usize, at_ms: u64) -> Self {
        let took = Duration::from_millis(1);
        let (late, second_at_ms) = (Duration::ZERO, at_ms);
        Self { caller, allowed: true, at_ms, second_at_ms, is_degraded: false, took, late, retries: 0 }
    }
}

impl FaultedCaller {
    /// Returns true if the caller keeps to its quota.
    pub(super) fn is_honest(&self) -> bool {
        self.demand == Demand::Honest
    }

    /// Returns true if the caller repeats denied calls.
    pub(super) fn retries(&self) -> bool {
        self.is_honest()
    }

    /// Returns true if the caller never pauses for longer than the time between two of its calls.
    pub(super) fn is_steady(&self) -> bool {
        !matches!(self.demand, Demand::Bursts(_))
    }

    /// Returns true if the caller shares a quota with another one.
    pub(super) fn is_shared(&self) -> bool {
        self.mix == CallMix::AsUsers && matches!(self.demand, Demand::Steady | Demand::Bursts(0))
    }

    /// Returns a call with an id, if it has one.
    pub(super) fn call(&self, id: Option<String>) -> Call<'static> {
        let call = Call::new().with(self.limiting.descriptor(), self.key.to_string());
        let call = match self.mix {
            CallMix::OneRule => call,
            _ if self.is_shared() => call.with(self.limiting.shared(), "abusers"),
            CallMix::WithTenant | CallMix::AsUsers => call.with(self.limiting.tenant(), "tenant"),
        };
        if let Some(id) = id { call.identified(id) } else { call }
    }

    /// Returns the id of a call, if it has one.
    fn id(&self, second: u64, nth: usize) -> Option<String> {
        let is_identified = self.mix == CallMix::AsUsers && nth.is_multiple_of(IDENTIFIED_EVERY);
        is_identified.then(|| format!("{second}-{nth}"))
    }

    /// Returns the calls in a second of the run.
    fn rate(&self, second: u64) -> u32 {
        match self.demand {
            Demand::Honest => HONEST_RATE,
            Demand::Steady => STEADY_RATE,
            Demand::Bursts(number) if second / BURST_SECONDS % BURSTING == number => BURST_RATE,
            Demand::Bursts(_) => 0,
        }
    }
}

/// Returns callers that make about so many calls a second: the abusers are always the same, and honest callers make the others.
pub(super) fn callers(fleets: usize, mix: CallMix, rate: u32) -> Vec<FaultedCaller> {
    let groups = u32::try_from(fleets * Limiting::ALL.len()).expect("a few");
    let honest = rate.div_ceil(groups).saturating_sub(STEADY_RATE + BURST_RATE).div_ceil(HONEST_RATE).max(1);
    let mut callers = Vec::new();
    for fleet in 0..fleets {
        for limiting in Limiting::ALL {
            let mut add = |demand, key: String| {
                callers.push(FaultedCaller { fleet, limiting, mix, demand, key: key.into() });
            };
            (0..honest).for_each(|number| add(Demand::Honest, format!("honest-{number}")));
            (0..BURSTING).for_each(|number| add(Demand::Bursts(number), format!("bursts-{number}")));
            add(Demand::Steady, "steady".to_owned());
        }
    }
    callers
}

/// Returns the calls per second of all callers.
pub(super) fn rate(callers: &[FaultedCaller]) -> u32 {
    callers.iter().map(|caller| caller.rate(0)).sum()
}

/// Returns the calls per second of the honest callers of one rule at one agent.
pub(super) fn honest_rate(callers: &[FaultedCaller]) -> u32 {
    let is_of_rule = |caller: &&FaultedCaller| {
        caller.is_honest() && caller.limiting == callers[0].limiting && caller.fleet == callers[0].fleet
    };
    HONEST_RATE * u32::try_from(callers.iter().filter(is_of_rule).count()).unwrap_or(u32::MAX) / FLEET_SIZE
}

impl FailureLoad {
    /// Starts the load on the runtime of the caller.
    pub(super) fn start(callers: &Arc<[FaultedCaller]>, fleets: &[FaultedFleet]) -> std::io::Result<Self> {
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let agents: Vec<Vec<Agent>> = fleets.iter().map(|fleet| fleet.agents.clone()).collect();
        let timer =
            Timer { callers: callers.clone(), agents, answers: Arc::clone(&answers), runtime: Handle::current() };
        let stopped = stop.clone();
        let timer = std::thread::Builder::new().name("failure-load".into()).spawn(move || timer.run(&stopped))?;
        Ok(Self { stop, timer, answers })
    }

    pub(super) fn stop(self) -> Vec<Answered> {
        self.stop.store(true, Ordering::Relaxed);
        if self.timer.join().is_err() {
            tracing::error!("the thread of the load panicked; its last calls are missing");
        }
        std::mem::take(&mut self.answers.lock())
    }
}

struct Timer {
    callers: Arc<[FaultedCaller]>,
    agents: Vec<Vec<Agent>>,
    answers: Arc<Mutex<Vec<Answered>>>,
    runtime: Handle,
}

impl Timer {
    fn run(&self, stopped: &AtomicBool) {
        let (since, mut rng) = (Stopwatch::start(), fastrand::Rng::with_seed(1));
        for second in 0.. {
            for (due, caller, nth) in calls_of(&self.callers, second, &mut rng) {
                let due = Duration::from_secs(second) + due;
                let wait = due.saturating_sub(since.elapsed());
                if !wait.is_zero() {
                    std::thread::sleep(wait);
                }
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                let agents = self.agents[self.callers[caller].fleet].clone();
                let (callers, answers) = (self.callers.clone(), self.answers.clone());
                let call = callers[caller].call(callers[caller].id(second, nth));
                self.runtime.spawn(async move {
                    let mut late = since.elapsed().saturating_sub(due);
                    for retries in 0..=RETRIES_MAX {
                        let agent = &agents[(nth + retries) % AGENTS];
                        let took = Stopwatch::start();
                        let decision = agent.decide(&call).await;
                        let took = took.elapsed();
                        answers.lock().push(Answered { caller, took, late, retries, ..Answered::of(&decision) });
                        if decision.allowed || !callers[caller].retries() {
                            break;
                        }
                        let wait_ms = decision.status.map_or(0, |status| status.retry_after_ms);
                        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                        late = Duration::ZERO;
                    }
                });
            }
        }
    }
}

/// Returns the calls of a second in order: the due instant, the caller and the call's number among its own.
pub(super) fn calls_of(
    callers: &[FaultedCaller],
    second: u64,
    rng: &mut fastrand::Rng,
) -> Vec<(Duration, usize, usize)> {
    let mut calls = Vec::new();
    for (number, caller) in callers.iter().enumerate() {
        let rate = caller.rate(second);
        for nth in 0..rate {
            let part = Duration::from_secs(1) / rate;
            calls.push((part * nth + part.mul_f64(rng.f64()), number, nth as usize));
        }
    }
    calls.sort_unstable();
    calls
}
