//! The incoming half of the agent's exchange with the bus: signals, presence, dead letters, and the state of the bus.
//!
//! [`Engine::receive`] is a method of the shared engine and not part of the [`crate::housekeeping::exchange`] state machine: it has no
//! deadlines, no effects and no state of its own, and the thread that reads the bus must not wait for the thread that
//! writes. Both threads would have to lock one state machine for both directions.
//!
//! The reader decodes; a record that it cannot decode arrives as [`Incoming::Undecodable`]. A decoded record that
//! reports what cannot be (`absurd_signals`, [`Newcomers`](tollgate_core::newcomers)) is a dead letter,
//! too. Published rules go to [`Engine::set_rules`] instead, because parsing them is work for the shell.

use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::Topic;
use tollgate_core::messages::presence::Presence;
use tollgate_core::messages::signals::{AgentUnits, LogEnd, Offset, Signal, SignalBatch};
use tollgate_core::newcomers::Heard;

use crate::bus::{IgnoredRecord, Judgement, judge};
use crate::counters::{Flow, ViewEvent, update};
use crate::engine::Engine;
use crate::fleet::newcomers_len_max;
use crate::report::Notice;
use crate::rules::ActiveRules;
use crate::time::TimeBounds;

/// Record of the bus that an agent reads.
#[derive(Clone, Copy, Debug)]
pub enum Incoming<'a> {
    /// Record of `signals`.
    Signals {
        /// Time at which the bus appended it.
        appended: Timestamp,
        /// The record.
        batch: &'a SignalBatch,
        /// End of the partition of `calls` that was counted, after [`Receipt::NeedsLogEnd`].
        end: Option<LogEnd>,
    },
    /// Record of `presence`.
    Presence {
        /// Time at which the bus appended it.
        appended: Timestamp,
        /// The record.
        presence: &'a Presence,
    },
    /// Record of a topic that could not be decoded, and the reason.
    Undecodable(Topic, &'a str),
}

/// Result of [`Engine::receive`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Receipt {
    /// The record was applied, or is outdated.
    Applied,
    /// The record can only be judged with the end of this partition of `calls`: find it, and pass the record again with
    /// it. If the bus does not tell it, nothing is lost, because signals are repeated.
    NeedsLogEnd(Partition),
    /// The record changed nothing.
    DeadLetter(IgnoredRecord),
}

impl Engine {
    /// Applies a record of the bus. Appends the lag of each signal that is news, from the charge to this agent.
    pub fn receive(&self, now: Timestamp, incoming: Incoming<'_>, lags: &mut Vec<Duration>) -> Receipt {
        let dead_letter = |topic, reason| Receipt::DeadLetter(self.bus.pass_over(now, topic, reason));
        match incoming {
            Incoming::Signals { appended, batch, end } => {
                match judge(self.bus.signals().followed(batch.partition), appended, batch, end) {
                    Judgement::Credible => self.receive_signals(now, appended, batch, lags),
                    Judgement::CredibleAgain => {
                        self.bus.signals().begin_anew(batch.partition);
                        let _ = self.bus.pass_over(now, Topic::Signals, String::new());
                        self.reports.notify(Notice::SignalsBeginAnew);
                        self.receive_signals(now, appended, batch, lags);
                    }
                    Judgement::NeedsLogEnd => return Receipt::NeedsLogEnd(batch.partition),
                    Judgement::Absurd(reason) => return dead_letter(Topic::Signals, reason),
                }
            }
            Incoming::Presence { appended, presence } => match self.fleet.hear(appended, presence) {
                Heard::Member => self.receive_presence(now, appended, presence),
                Heard::Newcomer => {}
                Heard::TooMany => {
                    let reason = format!(
                        "more than {} new agents within seconds; if there are as many, start agents with --agents-expected",
                        newcomers_len_max(self.settings.agents_expected)
                    );
                    return dead_letter(Topic::Presence, reason);
                }
            },
            Incoming::Undecodable(topic, reason) => return dead_letter(topic, reason.to_owned()),
        }
        Receipt::Applied
    }

    /// Returns the number of records of a topic that changed nothing: undecodable ones, and those that report what
    /// cannot be.
    #[must_use]
    pub fn dead_letters(&self, topic: Topic) -> u64 {
        self.bus.dead_letters(topic)
    }

    /// Records that the bus cannot be used, with the reason, or that it can.
    pub fn set_bus_error(&self, error: Option<String>) {
        self.bus.set_error(error);
    }

    /// Returns true if the bus can be used; false until it has been prepared for the first time.
    #[must_use]
    pub fn is_bus_connected(&self) -> bool {
        self.bus.is_connected()
    }

    /// Returns the reason why the bus cannot be used, if it cannot.
    #[must_use]
    pub fn bus_error(&self) -> Option<String> {
        self.bus.error()
    }

    /// Returns true if signals of every partition have been read for long enough to be relied on.
    #[must_use]
    pub fn has_read_signals(&self) -> bool {
        self.bus.signals().has_read_enough()
    }

    /// Returns true if the agent can be relied on: its store has answered, or signals have been read for long enough.
    #[must_use]
    pub fn is_informed(&self) -> bool {
        self.has_reached_store() || self.has_read_signals()
    }

    /// Returns the offset up to which the newest signals of a partition count `calls`.
    #[must_use]
    pub fn signals_count_to(&self, partition: Partition) -> Option<Offset> {
        self.bus.signals().followed(partition).map(|followed| followed.as_of)
    }

    fn receive_presence(&self, now: Timestamp, appended: Timestamp, presence: &Presence) {
        if presence.id == self.settings.node && presence.epoch == self.settings.epoch.as_ms() {
            self.bus.signals().note_bus_time(presence.clock, now, appended);
            if self.settings.lacks_store && presence.clock <= now {
                self.note_store_time(presence.clock, now, appended);
            }
        }
        if let Some(switch) = presence.emergency {
            self.learn_emergency(now, switch);
        }
        self.learn_resets(now, &presence.resets);
        self.fleet.presence(now, presence);
    }

    fn receive_signals(&self, now: Timestamp, appended: Timestamp, batch: &SignalBatch, lags: &mut Vec<Duration>) {
        let store_time = self.store_time(now);
        if !self.bus.signals().received(now, appended, batch) {
            return;
        }
        let active = self.rules.load();
        let live = self.fleet.are_members(&batch.agents);
        let flow = |signal: &Signal| self.flow_of(signal, batch, &live);
        let is_news = |signal: &&Signal| {
            self.receive_signal(&active, store_time, signal, flow(signal))
                && batch.is_of_change(signal, store_time.latest)
        };
        let lag = |signal: &Signal| Duration::from_millis(store_time.latest.ms_since(signal.newest_at));
        lags.extend(batch.signals.iter().filter(is_news).map(lag));
        self.bus.signals().applied(batch);
    }

    /// Returns the admissions by agent in a signal. Agents that are gone leave their part to all others.
    fn flow_of(&self, signal: &Signal, batch: &SignalBatch, live: &[bool]) -> Flow {
        let agent = |by_agent: &AgentUnits| {
            let index = by_agent.agent as usize;
            (by_agent.units, live.get(index) == Some(&true), batch.agents.get(index) == Some(&self.settings.node))
        };
        let named = signal.by_agent.iter().map(agent);
        let gone = named.clone().filter(|(_, is_live, _)| !is_live).map(|(units, ..)| units);
        let others = gone.fold(signal.by_others, u64::saturating_add);
        Flow::new(named.filter(|(_, is_live, _)| *is_live).map(|(units, _, is_own)| (units, is_own)), others)
    }

    /// Applies the signal of one counter. Returns true if it contains charges that no earlier signal contained. Where the
    /// counts are in the own table, signals decide nothing: only the lag of the agent's own counters is of use.
    fn receive_signal(&self, active: &ActiveRules, now: TimeBounds, signal: &Signal, flow: Flow) -> bool {
        let rule = active.set.rules.iter().find(|rule| rule.name == signal.rule);
        let mut policies = rule.into_iter().flat_map(|rule| rule.all_policies());
        let Some(policy) = policies.find(|policy| policy.window == signal.admitted.window()) else { return false };
        let is_other = self.settings.owns_table && !self.counters.holds(signal.counter);
        // A signal of one caller says nothing about a counter that many callers share.
        let mut table = self.counters.lock([signal.counter].into_iter());
        if is_other || !table.place(signal.counter, &signal.rule, active.has_one_limit, now.earliest) {
            return false;
        }
        let view = table.view(signal.counter);
        let known = view.signalled_through();
        update(policy, view, ViewEvent::Signal { signal, flow, latest: now.latest });
        known.is_none_or(|known| known < signal.newest_at)
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::CounterId;
    use tollgate_core::rules::{Rule, RuleSet};
    use tollgate_core::window::Ring;

    use super::*;
    use crate::engine_settings::EngineSettings;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// Applies a signal of a counter without units, under a threshold; returns the engine, and the number of lags.
    fn signalled(owns_table: bool, threshold_permille: u32) -> (Engine, usize) {
        let rule = Rule::per("per-key", &["api_key"], "100/min".parse().expect("a quota"));
        let window = rule.all_policies().next().expect("a policy").window;
        let settings = EngineSettings { owns_table, ..EngineSettings::new("a", START) };
        let engine = Engine::new(settings, RuleSet::new(1, [rule]));
        let signal = Signal {
            counter: CounterId::from_u128(7),
            rule: "per-key".into(),
            label: "k".into(),
            generation: 1,
            quota: 100,
            admitted: Ring::new(window),
            by_agent: Vec::new(),
            by_others: 0,
            denied: 0,
            rate_milli: 0,
            budget: None,
            newest_at: START,
            charged_at: START,
        };
        let batch = SignalBatch {
            aggregator: "g".into(),
            partition: 0,
            log: 1,
            as_of: 1,
            as_of_appended: START,
            threshold_permille,
            agents: Vec::new(),
            signals: vec![signal],
        };
        let mut lags = Vec::new();
        let end = Some(LogEnd { log: 1, next: 2 });
        let receipt = engine.receive(START, Incoming::Signals { appended: START, batch: &batch, end }, &mut lags);
        assert_eq!(receipt, Receipt::Applied);
        (engine, lags.len())
    }

    #[test]
    fn an_agent_with_its_own_table_stores_no_counter_of_another_agent() {
        for (owns_table, counters) in [(false, 1), (true, 0)] {
            let (engine, lags) = signalled(owns_table, 0);
            assert_eq!((engine.held().counters, lags), (counters, counters), "{owns_table}");
        }
    }

    /// A counter below the threshold is signalled because the threshold falls, however long ago it was charged.
    #[test]
    fn a_signal_that_no_call_has_caused_has_no_lag() {
        let (engine, lags) = signalled(false, 500);
        assert_eq!((engine.held().counters, lags), (1, 0));
    }
}
