//! Every call of a run: when it should have been made, when it was decided, and when other agents knew of it.
//!
//! Call number i belongs to key i mod K and is its call number i / K; key k belongs to agent k mod N. So neither needs to
//! be remembered. Instants are microseconds since the run began, 0 for "not yet".

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tollgate_core::clock::{Stopwatch, Timestamp};

use super::{DESCRIPTOR, Plan};

/// About how many keys calls are spread over: at 5,000 calls a second each has one in 200 ms, so that they rarely wait for
/// each other.
const KEYS: u32 = 1_000;
/// The longest time that is told apart, in microseconds.
const MEASURED_US_MAX: u64 = 600_000_000;

pub(super) struct Calls {
    since: Stopwatch,
    /// The same instant on the clock of this machine.
    since_at: Timestamp,
    /// When the first call is due.
    first: OnceLock<Duration>,
    agents: u32,
    keys: u32,
    rate: u64,
    warm_up: u64,
    made: AtomicU64,
    known: AtomicU64,
    notes: Box<[Note]>,
    legs: Mutex<[Histogram<u64>; Leg::ALL.len()]>,
}

/// A part of the way from a call to its signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Decided,
    Logged,
    Said,
    Heard,
}

/// When what an agent learnt at once happened.
#[derive(Clone, Copy, Debug)]
pub(super) struct News {
    /// When it had learnt it.
    pub(super) heard: u64,
    /// When the newest batch of calls in it was appended, by the clock of Kafka.
    pub(super) counted: u64,
    /// When the signal was appended.
    pub(super) said: u64,
}

#[derive(Default)]
struct Note {
    decided_us: AtomicU64,
    /// When the next agent knew.
    next_us: AtomicU64,
    /// When the last one of those who know learnt of it, and how many know.
    latest_us: AtomicU64,
    known_by: AtomicU32,
}

impl Leg {
    pub(super) const ALL: [Self; 4] = [Self::Decided, Self::Logged, Self::Said, Self::Heard];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Decided => "call to decision",
            Self::Logged => "decision to the log of calls",
            Self::Said => "log of calls to that of signals",
            Self::Heard => "log of signals to the other agent",
        }
    }
}

pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(MEASURED_US_MAX, 3).expect("bounds that are in order")
}

pub(super) fn as_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Calls {
    /// The calls of a plan; it is `now`.
    pub(super) fn new(plan: &Plan, now: Timestamp) -> Self {
        let agents = plan.agents.get();
        let notes = (0..plan.calls()).map(|_| Note::default()).collect();
        Self {
            since: Stopwatch::start(),
            since_at: now,
            first: OnceLock::new(),
            agents,
            keys: KEYS.div_ceil(agents) * agents,
            rate: plan.rate.get().into(),
            warm_up: plan.warm_up_calls(),
            made: AtomicU64::new(0),
            known: AtomicU64::new(0),
            notes,
            legs: Mutex::new(std::array::from_fn(|_| histogram())),
        }
    }

    /// From here on calls are due.
    pub(super) fn begin(&self) {
        self.first.get_or_init(|| self.since.elapsed());
    }

    pub(super) fn len(&self) -> u64 {
        self.notes.len() as u64
    }

    pub(super) fn keys(&self) -> u32 {
        self.keys
    }

    /// How many calls a key gets, at most.
    pub(super) fn per_key(&self) -> u64 {
        self.len().div_ceil(self.keys.into())
    }

    /// The agent at which the calls of a key are made.
    pub(super) fn agent_of(&self, key: u32) -> u32 {
        key % self.agents
    }

    pub(super) fn is_measured(&self, call: u64) -> bool {
        call >= self.warm_up
    }

    pub(super) fn now(&self) -> Duration {
        self.since.elapsed()
    }

    /// When a call is due.
    pub(super) fn due(&self, call: u64) -> Duration {
        let after_us = u128::from(call) * 1_000_000 / u128::from(self.rate);
        let first = self.first.get().copied().unwrap_or_default();
        first + Duration::from_micros(u64::try_from(after_us).unwrap_or(u64::MAX))
    }

    /// An instant by a clock like that of this machine.
    pub(super) fn us_at(&self, at: Timestamp) -> u64 {
        at.ms_since(self.since_at) * 1_000
    }

    pub(super) fn decided(&self, call: u64) {
        self.note(call).decided_us.store(as_us(self.now()), Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// An agent has learnt that so many calls of a key were made; before, it knew of `known`.
    pub(super) fn learnt(&self, agent: u32, key: u32, (known, total): (u64, u64), news: News) {
        let owner = self.agent_of(key);
        if agent == owner {
            return;
        }
        let is_next = agent == (owner + 1) % self.agents;
        for nth in known..total {
            let number = nth * u64::from(self.keys) + u64::from(key);
            if number >= self.len() {
                return;
            }
            let note = self.note(number);
            note.latest_us.fetch_max(news.heard, Ordering::Relaxed);
            if note.known_by.fetch_add(1, Ordering::AcqRel) + 2 == self.agents {
                self.known.fetch_add(1, Ordering::Relaxed);
            }
            if is_next {
                note.next_us.store(news.heard, Ordering::Relaxed);
                if self.is_measured(number) {
                    self.walk(number, news);
                }
            }
        }
    }

    /// Whether all agents know of all calls.
    pub(super) fn are_all_known(&self) -> bool {
        self.known.load(Ordering::Relaxed) >= self.len()
    }

    /// From when a call was due until the next agent knew of it, in microseconds; nothing when it never did.
    pub(super) fn lag_us(&self, call: u64) -> Option<u64> {
        let heard_us = self.note(call).next_us.load(Ordering::Relaxed);
        (heard_us > 0).then(|| heard_us.saturating_sub(as_us(self.due(call))))
    }

    /// The same until all agents knew.
    pub(super) fn slowest_lag_us(&self, number: u64) -> Option<u64> {
        let note = self.note(number);
        let all_know = note.known_by.load(Ordering::Acquire) + 1 >= self.agents;
        all_know.then(|| note.latest_us.load(Ordering::Relaxed).saturating_sub(as_us(self.due(number))))
    }

    pub(super) fn leg(&self, leg: Leg) -> Histogram<u64> {
        self.legs.lock()[leg as usize].clone()
    }

    /// The name of a key.
    pub(super) fn name(key: u32) -> String {
        format!("{DESCRIPTOR}-{key}")
    }

    fn walk(&self, number: u64, news: News) {
        let decided_us = match self.note(number).decided_us.load(Ordering::Relaxed) {
            // The signal overtook the answer.
            0 => news.counted,
            decided_us => decided_us,
        };
        let stops = [as_us(self.due(number)), decided_us, news.counted, news.said, news.heard];
        let mut legs = self.legs.lock();
        for (leg, stops) in legs.iter_mut().zip(stops.windows(2)) {
            leg.saturating_record(stops[1].saturating_sub(stops[0]));
        }
    }

    fn note(&self, number: u64) -> &Note {
        &self.notes[usize::try_from(number).unwrap_or(usize::MAX)]
    }
}
