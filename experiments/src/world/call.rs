//! The way of a call: agent, store, agent.

use tollgate::store::{ChargeStore, StoreError};
use tollgate::{Call, Decision};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Charge;
use tollgate_core::counter::ChargeResults;
use tollgate_engine::{Amend, Progress};

use super::event::{Event, Ticket};
use super::{Decided, InFlight, PROBE_MS, World};

impl<'c> World<'c> {
    /// A call arrives at an agent, now.
    pub fn arrive(&mut self, agent: usize, call: Call<'c>) {
        let (engine, own_now) = self.agents[agent].at(self.now());
        let arrived = self.now();
        match engine.begin(own_now, &call) {
            Progress::Done(decision) => self.decide(agent, call, arrived, decision),
            Progress::NeedsStore(pending) if self.settings.network.is_instant() && self.store_is_up => {
                let answer = self.ask_store(pending.takes());
                let (engine, own_now) = self.agents[agent].at(self.now());
                let decision = engine.finish(own_now, &call, pending, answer);
                self.decide(agent, call, arrived, decision);
            }
            Progress::NeedsStore(pending) => {
                self.tickets += 1;
                let ticket = self.tickets;
                let deadline_ms = u64::try_from(pending.deadline().as_millis()).unwrap_or(u64::MAX);
                let takes = pending.takes().to_vec();
                self.in_flight.insert(ticket, InFlight { agent, call, pending, arrived });
                let there = self.settings.network.way_to_store();
                self.after(there, Event::StoreReads { ticket, takes });
                self.after(deadline_ms, Event::Deadline { ticket });
            }
        }
        if !self.settings.heartbeats {
            self.wake_soon(agent);
        }
    }

    /// Something is said of a call after its decision, now; the store hears of it at once, if it is there.
    pub fn amend(&mut self, agent: usize, call: &Call<'_>, amend: Amend) {
        let (engine, own_now) = self.agents[agent].at(self.now());
        let amendment = engine.amend(own_now, call, amend);
        if amendment.takes().is_empty() {
            return;
        }
        let answer = if self.store_is_up { self.ask_store(amendment.takes()) } else { Err(StoreError::Unreachable) };
        // What cannot be given back is the caller's to know, and of no account here.
        let _ = engine.amended(own_now, call, &amendment, answer, None);
        self.probe_when_needed(agent);
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
        let Some(InFlight { agent, call, pending, arrived }) = self.in_flight.remove(&ticket) else {
            return;
        };
        let (engine, own_now) = self.agents[agent].at(self.now());
        let decision = engine.finish(own_now, &call, pending, answer);
        self.decide(agent, call, arrived, decision);
        self.probe_when_needed(agent);
    }

    fn probe_when_needed(&mut self, agent: usize) {
        if self.agents[agent].starts_probing() {
            self.after(PROBE_MS, Event::Probe { agent });
        }
    }

    pub(super) fn decide(&mut self, agent: usize, call: Call<'c>, arrived: Timestamp, decision: Decision) {
        let answered = self.now();
        self.decided.push(Decided { agent, call, arrived, answered, decision });
    }

    /// An agent looks whether the store is back, and pays what it owes.
    pub(super) fn probe(&mut self, agent: usize) {
        let (engine, own_now) = self.agents[agent].at(self.now());
        if self.store_is_up {
            while engine.has_unsynced() {
                let payment = engine.pay_debts();
                let answer = self.ask_store(payment.takes());
                engine.paid(payment, &answer);
                if answer.is_err() {
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
