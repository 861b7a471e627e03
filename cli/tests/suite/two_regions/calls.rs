//! Calls of a load, as their callers log them, and what an exact limiter makes of the same calls.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_core::clock::Stopwatch;
use tollgate_servers::scaled;

use crate::support::Client;

/// Width of the window of the full size, in ms. Half of it halves the time of the tests.
pub(crate) const WIDTH_FULL_MS: u64 = 10_000;

pub(crate) fn width_ms() -> u64 {
    if scaled(10) < 10 { WIDTH_FULL_MS / 2 } else { WIDTH_FULL_MS }
}

/// Returns the quota of the rule over all regions: 100 calls a second.
pub(crate) fn quota() -> u64 {
    width_ms() / 10
}

/// One call, in ms since the start of the load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedCall {
    pub(crate) agent: SocketAddr,
    pub(crate) sent_ms: u64,
    pub(crate) answered_ms: u64,
    pub(crate) is_admitted: bool,
}

/// Calls at an even pace to each of some agents.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub(crate) agents: Vec<SocketAddr>,
    pub(crate) time_ms: Range<u64>,
    /// Calls to each agent.
    pub(crate) per_second: u64,
}

/// Calls of a load, by the time of sending.
#[derive(Debug, Default)]
pub(crate) struct CallLog(Vec<LoggedCall>);

/// Makes the calls of all phases for one key. An agent that does not answer is left out for the rest of its phase.
pub(crate) fn run(key: &str, phases: &[Phase], started: Stopwatch) -> CallLog {
    run_until(key, phases, started, &AtomicU64::new(u64::MAX))
}

/// Makes the calls as [`run`] does, but ends all phases at a time that may be set while it runs.
pub(crate) fn run_until(key: &str, phases: &[Phase], started: Stopwatch, end_ms: &AtomicU64) -> CallLog {
    let mut calls: Vec<LoggedCall> = thread::scope(|scope| {
        let callers = phases.iter().flat_map(|phase| phase.agents.iter().map(move |agent| (phase, *agent)));
        let callers: Vec<_> =
            callers.map(|(phase, agent)| scope.spawn(move || make_calls(key, phase, agent, started, end_ms))).collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("no panic")).collect()
    });
    calls.sort_by_key(|call| call.sent_ms);
    CallLog(calls)
}

fn make_calls(key: &str, phase: &Phase, agent: SocketAddr, started: Stopwatch, end_ms: &AtomicU64) -> Vec<LoggedCall> {
    let now_ms = || u64::try_from(started.elapsed().as_millis()).expect("a short test");
    let mut client = None;
    let mut calls = Vec::new();
    for number in 0.. {
        let due_ms = phase.time_ms.start + number * 1_000 / phase.per_second;
        thread::sleep(Duration::from_millis(due_ms.saturating_sub(now_ms())));
        if due_ms >= phase.time_ms.end.min(end_ms.load(Ordering::Relaxed)) {
            break;
        }
        let client = client.get_or_insert_with(|| Client::connect(agent).expect("an agent listens"));
        let sent_ms = now_ms();
        let Some(answer) = client.try_check(key) else { break };
        calls.push(LoggedCall { agent, sent_ms, answered_ms: now_ms(), is_admitted: answer.status == 200 });
    }
    calls
}

impl CallLog {
    pub(crate) fn to(&self, agents: &[SocketAddr]) -> Self {
        Self(self.0.iter().filter(|call| agents.contains(&call.agent)).copied().collect())
    }

    pub(crate) fn sent(&self, time_ms: Range<u64>) -> usize {
        self.0.iter().filter(|call| time_ms.contains(&call.sent_ms)).count()
    }

    pub(crate) fn admitted(&self, time_ms: Range<u64>) -> u64 {
        self.0.iter().filter(|call| call.is_admitted && time_ms.contains(&call.sent_ms)).count() as u64
    }

    /// Returns the number of the calls in a time that one sliding log over all calls admits.
    pub(crate) fn admitted_by_exact(&self, time_ms: Range<u64>) -> u64 {
        let (mut window, mut admitted) = (VecDeque::new(), 0);
        let (quota, width_ms) = (quota(), width_ms());
        for call in &self.0 {
            while window.front().is_some_and(|at| at + width_ms <= call.sent_ms) {
                window.pop_front();
            }
            if (window.len() as u64) < quota {
                window.push_back(call.sent_ms);
                admitted += u64::from(time_ms.contains(&call.sent_ms));
            }
        }
        admitted
    }

    /// Returns the largest number of admissions that surely lie in one window: their requests and answers do.
    pub(crate) fn fullest_window(&self) -> u64 {
        let admitted: Vec<&LoggedCall> = self.0.iter().filter(|call| call.is_admitted).collect();
        let within = |first: usize| {
            let end_ms = admitted[first].sent_ms + width_ms();
            let sent = admitted[first..].iter().take_while(|call| call.sent_ms < end_ms);
            sent.filter(|call| call.answered_ms < end_ms).count() as u64
        };
        (0..admitted.len()).map(within).max().unwrap_or(0)
    }
}
