//! Nodes with a network between them and a store, in virtual time: the ground on which each baseline runs.
//!
//! A [`Limiter`] is the code of all nodes and of its store. It gets calls, messages and timers, and answers calls. The network
//! delays messages and counts them. Of two events at one instant, the one that was scheduled first comes first.

use std::collections::{BTreeMap, VecDeque};

use fastrand::Rng;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;

use super::workload::ArrivedCall;
use crate::scenario::arrivals::BEGIN;

/// Bytes of a message beside its counts: the headers of IP and TCP, the sender and the time.
pub(super) const HEADER_BYTES: u64 = 64;
/// Bytes of a count in a message: the digest of its key and the count.
pub(super) const COUNT_BYTES: u64 = 24;
/// Bytes of a request to the store with its answer: the estimate of source 001.
pub(super) const REQUEST_BYTES: u64 = 136;

/// A way of limiting: the code of all nodes, and of the store that they share.
pub(super) trait Limiter {
    /// A message between two nodes, or between a node and the store.
    type Message: Clone;

    fn start(&mut self, _net: &mut PeerNetwork<Self::Message>) {}

    fn call(&mut self, net: &mut PeerNetwork<Self::Message>, call: ArrivedCall);

    fn receive(&mut self, _net: &mut PeerNetwork<Self::Message>, _to: Side, _message: Self::Message) {}

    /// A timer of a node fires.
    fn wake(&mut self, _net: &mut PeerNetwork<Self::Message>, _node: usize) {}

    /// Returns the bytes of the value of one counter, without its key, in which counts and times have 8 bytes.
    fn bytes(&self) -> CounterBytes;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Node(usize),
    Store,
}

/// Cause of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// A call, or a change of one counter.
    Call,
    /// A timer: one message carries the counts of all counters.
    Timer,
}

/// Bytes of a counter at each node and at the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CounterBytes {
    pub(super) node: u64,
    pub(super) store: u64,
}

/// Setting of a run: calls, fleet and delays.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) nodes: usize,
    pub(super) quota: Quota,
    pub(super) callers: usize,
    pub(super) calls: Vec<ArrivedCall>,
    pub(super) end: Timestamp,
    /// Instant of the incident, for the ways that have one: nodes are added, or the store is lost.
    pub(super) incident: Timestamp,
    pub(super) seed: u64,
    pub(super) delays: Delays,
}

/// Longest delays of messages, one way, in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delays {
    pub(super) peer: u64,
    pub(super) store: u64,
    pub(super) bus: u64,
}

/// The call counts at the instant of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WayAnswer {
    pub(super) call: ArrivedCall,
    pub(super) at: Timestamp,
    pub(super) is_admitted: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    /// Messages that calls caused, and timers.
    pub(super) call_messages: u64,
    pub(super) timer_messages: u64,
    /// Bytes of counts and of messages that calls caused, and the headers of the others.
    pub(super) call_bytes: u64,
    pub(super) timer_bytes: u64,
    /// Requests to the store that calls caused, and timers.
    pub(super) store_requests: u64,
    pub(super) timer_requests: u64,
}

/// Answers in order of time, and the traffic that they took.
pub(super) struct TrialResult {
    pub(super) answers: Vec<WayAnswer>,
    pub(super) traffic: Traffic,
    pub(super) bytes: CounterBytes,
}

/// The network, time, and a source of chance.
pub(super) struct PeerNetwork<M> {
    pub(super) nodes: usize,
    pub(super) rng: Rng,
    now: Timestamp,
    delays: Delays,
    queue: BTreeMap<Timestamp, VecDeque<NetworkEvent<M>>>,
    answers: Vec<WayAnswer>,
    traffic: Traffic,
}

enum NetworkEvent<M> {
    Arrives(Side, M),
    /// Nodes at which the same message arrives.
    ArrivesAtAll(Vec<usize>, M),
    Wakes(usize),
    Answered(ArrivedCall, bool),
}

pub(super) fn simulate<L: Limiter>(mut limiter: L, trial: &Trial) -> TrialResult {
    let mut net = PeerNetwork {
        nodes: trial.nodes,
        rng: Rng::with_seed(trial.seed),
        now: BEGIN,
        delays: trial.delays,
        queue: BTreeMap::new(),
        answers: Vec::with_capacity(trial.calls.len()),
        traffic: Traffic::default(),
    };
    limiter.start(&mut net);
    for call in &trial.calls {
        net.run_until(&mut limiter, call.at);
        limiter.call(&mut net, *call);
    }
    net.run_until(&mut limiter, trial.end);
    net.finish();
    TrialResult { answers: net.answers, traffic: net.traffic, bytes: limiter.bytes() }
}

impl<M: Clone> PeerNetwork<M> {
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// Answers a call now.
    pub(super) fn answer(&mut self, call: ArrivedCall, is_admitted: bool) {
        self.answers.push(WayAnswer { call, at: self.now, is_admitted });
    }

    pub(super) fn answer_after(&mut self, ms: u64, call: ArrivedCall, is_admitted: bool) {
        self.after(ms, NetworkEvent::Answered(call, is_admitted));
    }

    pub(super) fn send(&mut self, cause: Cause, to: usize, counts: u64, message: M) {
        self.enter(cause, 1, counts);
        let delay_ms = self.rng.u64(1..=self.delays.peer);
        self.after(delay_ms, NetworkEvent::Arrives(Side::Node(to), message));
    }

    /// Sends a message with one count to all nodes, but to its sender.
    pub(super) fn send_to_all(&mut self, sender: Option<usize>, message: &M) {
        let slots = usize::try_from(self.delays.peer).expect("a short time");
        let mut receivers = vec![Vec::new(); slots];
        for node in (0..self.nodes).filter(|node| Some(*node) != sender) {
            receivers[self.rng.usize(0..slots)].push(node);
        }
        for (delay_ms, receivers) in (1..).zip(receivers).filter(|(_, receivers)| !receivers.is_empty()) {
            self.enter(Cause::Call, receivers.len() as u64, 1);
            self.after(delay_ms, NetworkEvent::ArrivesAtAll(receivers, message.clone()));
        }
    }

    /// Sends a request for one counter to the store.
    pub(super) fn ask(&mut self, message: M) {
        self.traffic.store_requests += 1;
        self.traffic.call_bytes += REQUEST_BYTES;
        let delay_ms = self.store_delay_ms();
        self.after(delay_ms, NetworkEvent::Arrives(Side::Store, message));
    }

    /// Sends the store's answer to a node.
    pub(super) fn reply(&mut self, to: usize, message: M) {
        let delay_ms = self.store_delay_ms();
        self.after(delay_ms, NetworkEvent::Arrives(Side::Node(to), message));
    }

    /// Sends a message with one count to a broker, which is in the place of the store.
    pub(super) fn publish(&mut self, message: M) {
        self.enter(Cause::Call, 1, 1);
        let delay_ms = self.rng.u64(1..=self.delays.peer);
        self.after(delay_ms, NetworkEvent::Arrives(Side::Store, message));
    }

    pub(super) fn wake_after(&mut self, ms: u64, node: usize) {
        self.after(ms, NetworkEvent::Wakes(node));
    }

    /// Counts messages that are sent without being delivered, because they contain no count.
    pub(super) fn enter(&mut self, cause: Cause, messages: u64, counts: u64) {
        let (traffic, counted) = (&mut self.traffic, messages * counts * COUNT_BYTES);
        traffic.call_bytes += counted;
        match cause {
            Cause::Call => {
                traffic.call_messages += messages;
                traffic.call_bytes += messages * HEADER_BYTES;
            }
            Cause::Timer => {
                traffic.timer_messages += messages;
                traffic.timer_bytes += messages * HEADER_BYTES;
            }
        }
    }

    /// Gives the answers that are due later.
    fn finish(&mut self) {
        for (at, events) in std::mem::take(&mut self.queue) {
            self.now = at;
            for event in events {
                if let NetworkEvent::Answered(call, is_admitted) = event {
                    self.answer(call, is_admitted);
                }
            }
        }
    }

    fn store_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.delays.store)
    }

    fn after(&mut self, ms: u64, event: NetworkEvent<M>) {
        self.queue.entry(self.now.plus_ms(ms)).or_default().push_back(event);
    }

    fn run_until<L: Limiter<Message = M>>(&mut self, limiter: &mut L, until: Timestamp) {
        while let Some(mut next) = self.queue.first_entry().filter(|next| *next.key() <= until) {
            self.now = *next.key();
            let Some(event) = next.get_mut().pop_front() else {
                next.remove();
                continue;
            };
            match event {
                NetworkEvent::Arrives(place, message) => limiter.receive(self, place, message),
                NetworkEvent::ArrivesAtAll(nodes, message) => {
                    for node in nodes {
                        limiter.receive(self, Side::Node(node), message.clone());
                    }
                }
                NetworkEvent::Wakes(node) => limiter.wake(self, node),
                NetworkEvent::Answered(call, is_admitted) => self.answer(call, is_admitted),
            }
        }
        self.now = until;
    }
}
