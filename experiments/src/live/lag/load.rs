//! The load: every call is sent at its due instant, regardless of earlier answers (an open loop).
//!
//! One thread keeps time with a finer resolution than tokio's timers and hands calls to one task per key. The calls of a key
//! are sequential, so its count identifies them.

use std::sync::Arc;
use std::thread::JoinHandle;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tollgate::{Agent, Call, Source};
use tollgate_sim::figures::{as_us, histogram};

use super::calls::Calls;
use super::plan::DESCRIPTOR;

pub(super) struct LagLoad {
    timer: JoinHandle<()>,
    tasks: JoinSet<()>,
    sent: Arc<Mutex<SentCalls>>,
}

/// Figures of the calls that were sent after the warm-up.
#[derive(Clone, Debug)]
pub(super) struct SentCalls {
    /// Delay of calls after their due instant, in microseconds.
    pub(super) late_us: Histogram<u64>,
    pub(super) by_source: [u64; Source::ALL.len()],
    pub(super) denied: u64,
    /// Instants of the first and the last call, in microseconds.
    pub(super) first_us: u64,
    pub(super) last_us: u64,
}

pub(super) fn start(agents: &[Agent], calls: &Arc<Calls>) -> std::io::Result<LagLoad> {
    let sent = SentCalls {
        late_us: histogram(),
        by_source: [0; Source::ALL.len()],
        denied: 0,
        first_us: u64::MAX,
        last_us: 0,
    };
    let sent = Arc::new(Mutex::new(sent));
    let (mut tasks, mut keys) = (JoinSet::new(), Vec::new());
    for key in 0..calls.keys {
        // The number of calls of a run is capped, so this queue is, too.
        let (due, numbers) = unbounded_channel();
        let agent = agents[calls.agent_of(key) as usize].clone();
        tasks.spawn(call(agent, key, numbers, calls.clone(), sent.clone()));
        keys.push(due);
    }
    let calls = calls.clone();
    let timer = std::thread::Builder::new().name("lag-load".into()).spawn(move || keep_time(&calls, &keys))?;
    Ok(LagLoad { timer, tasks, sent })
}

impl LagLoad {
    pub(super) fn is_done(&self) -> bool {
        self.timer.is_finished()
    }

    /// Waits for the last answers and returns the figures.
    pub(super) async fn end(self) -> SentCalls {
        self.tasks.join_all().await;
        let sent = self.sent.lock();
        sent.clone()
    }
}

fn keep_time(calls: &Calls, keys: &[UnboundedSender<u64>]) {
    calls.begin();
    for (number, key) in (0..calls.len()).zip(keys.iter().cycle()) {
        let wait = calls.due(number).saturating_sub(calls.now());
        if !wait.is_zero() {
            std::thread::sleep(wait);
        }
        // A task that panicked is reported when the others end.
        let _ = key.send(number);
    }
}

async fn call(
    agent: Agent,
    key: u32,
    mut numbers: UnboundedReceiver<u64>,
    calls: Arc<Calls>,
    sent: Arc<Mutex<SentCalls>>,
) {
    let name = Calls::name(key);
    while let Some(number) = numbers.recv().await {
        let sent_at = calls.now();
        let decision = agent.decide(&Call::new().with(DESCRIPTOR, &name)).await;
        calls.decided(number, as_us(calls.now()));
        if calls.is_measured(number) {
            let mut sent = sent.lock();
            sent.late_us.saturating_record(as_us(sent_at.saturating_sub(calls.due(number))));
            sent.by_source[decision.source as usize] += 1;
            sent.denied += u64::from(!decision.allowed);
            sent.first_us = sent.first_us.min(as_us(sent_at));
            sent.last_us = sent.last_us.max(as_us(sent_at));
        }
    }
}
