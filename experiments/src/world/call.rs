//! The way of a call: agent, store, agent.

use tollgate::Call;
use tollgate::store::{ChargeStore, StoreError};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;
use tollgate_engine::{Operation, Output, Progress};

use super::event::{Event, Ticket};
use super::{Decided, InFlight, PROBE_MS, World};

impl<'c> World<'c> {
    /// A call arrives at an agent, now.
    pub fn arrive(&mut self, agent: usize, call: Call<'c>) {
        let (engine, own_now) = self.agents[agent].at(self.now());
        let arrived = self.now();
        match engine.begin(own_now, Operation::Check(&call)) {
            Progress::Done(output) => self.decide(agent, call, arrived, output),
            Progress::NeedsStore(request) if self.settings.network.is_instant() && self.store_is_up => {
                let answer = self.ask_store(request.charges());
                let (engine, own_now) = self.agents[agent].at(self.now());
                let output = engine.finish(own_now, request, answer);
                self.decide(agent, call, arrived, output);
            }
            Progress::NeedsStore(request) => {
                self.tickets += 1;
                let ticket = self.tickets;
                let deadline_ms = u64::try_from(request.deadline().as_millis()).unwrap_or(u64::MAX);
                let charges = request.charges().to_vec();
                self.in_flight.insert(ticket, InFlight { agent, call, request, arrived });
                let there = self.settings.network.way_to_store();
                self.after(there, Event::StoreReads { ticket, takes: charges });
                self.after(deadline_ms, Event::Deadline { ticket });
            }
        }
        if !self.settings.heartbeats {
            self.wake_soon(agent);
        }
    }

    /// A call is settled or released after its decision; the store applies it at once, if it is available.
    pub fn adjust(&mut self, agent: usize, operation: Operation<'_, '_>) {
        let (engine, own_now) = self.agents[agent].at(self.now());
        if let Progress::NeedsStore(request) = engine.begin(own_now, operation) {
            let answer =
                if self.store_is_up { self.ask_store(request.charges()) } else { Err(StoreError::Unreachable) };
            // A refund that fails is the caller's to repeat.
            let _ = engine.finish(own_now, request, answer);
            self.probe_when_needed(agent);
        }
    }

    /// A question reaches the store, whether its caller still waits or not. A store that is away reads it when it is back.
    pub(super) fn store_reads(&mut self, ticket: Ticket, takes: Vec<Charge>) {
        if self.store_is_up {
            let answer = self.ask_store(&takes);
            let back = self.settings.network.way_from_store();
            self.after(back, Event::StoreReplies { ticket, answer });
        } else {
            self.unread.push((ticket, takes));
        }
    }

    pub(super) fn ask_store(&self, takes: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.store.try_charge(takes).unwrap_or(Err(StoreError::Unreachable))
    }

    /// The answer of the store or the deadline, whichever comes first.
    pub(super) fn finish(&mut self, ticket: Ticket, answer: Result<ChargeResults, StoreError>) {
        let Some(InFlight { agent, call, request, arrived }) = self.in_flight.remove(&ticket) else {
            return;
        };
        let (engine, own_now) = self.agents[agent].at(self.now());
        let output = engine.finish(own_now, request, answer);
        self.decide(agent, call, arrived, output);
        self.probe_when_needed(agent);
    }

    fn probe_when_needed(&mut self, agent: usize) {
        if self.agents[agent].starts_probing() {
            self.after(PROBE_MS, Event::Probe { agent });
        }
    }

    pub(super) fn decide(&mut self, agent: usize, call: Call<'c>, arrived: Timestamp, output: Output) {
        let decision = output.into_decision().expect("the output of a check is a decision");
        let answered = self.now();
        self.decided.push(Decided { agent, call, arrived, answered, decision });
    }

    /// An agent looks whether the store is back, and pays what it owes.
    pub(super) fn probe(&mut self, agent: usize) {
        let (engine, own_now) = self.agents[agent].at(self.now());
        if self.store_is_up {
            while let Progress::NeedsStore(request) = engine.begin(own_now, Operation::Backfill) {
                let answer = self.ask_store(request.charges());
                if let Output::Backfilled(Err(_)) = engine.finish(own_now, request, answer) {
                    break;
                }
            }
            engine.store_answers(own_now, own_now, self.now());
        }
        if self.agents[agent].keeps_probing() {
            self.after(PROBE_MS, Event::Probe { agent });
        }
    }
}
