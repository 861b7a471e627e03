//! The sleep of an agent's two shells between their ticks, as in `agent/src/runtime`: each sleeps exactly until the time that
//! its state machine named, unless the waker that it gave to the state machine is called earlier.
//!
//! An agent without a bus does not sleep; calls tick its maintenance.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tollgate_core::clock::Timestamp;
use tollgate_engine::{ExchangeInput, MaintenanceInput};

use super::{AgentLife, SimAgent};
use crate::sim::environment::Environment;
use crate::sim::event::{AgentShell, SimEvent};

/// The sleep of one shell.
#[derive(Debug, Default)]
pub(super) struct Sleep {
    /// The agent's own time at which the shell wakes. An event that ends an earlier sleep is void.
    until: Timestamp,
    woken: Arc<SimWaker>,
}

/// A waker that was called, or not yet.
#[derive(Debug, Default)]
struct SimWaker(AtomicBool);

impl Wake for SimWaker {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Sleep {
    /// Returns the waker that ends the sleep.
    pub(super) fn waker(&self) -> Waker {
        Waker::from(self.woken.clone())
    }
}

impl AgentLife<'_> {
    fn sleep_of(&mut self, shell: AgentShell) -> &mut Sleep {
        match shell {
            AgentShell::Exchange => &mut self.exchange_sleep,
            AgentShell::Maintenance => &mut self.maintenance_sleep,
        }
    }
}

impl<'c> SimAgent<'c> {
    /// The sleep of a shell may be over.
    pub(in crate::sim) fn wake(&mut self, env: &mut Environment<'c>, shell: AgentShell) {
        let own_now = self.time(env.now());
        let Some(running) = &mut self.running else { return };
        if own_now < running.sleep_of(shell).until {
            return;
        }
        match shell {
            AgentShell::Exchange => {
                for (partition, sequence, offset) in std::mem::take(&mut running.reports) {
                    self.exchange(env, ExchangeInput::Delivered { partition, sequence, offset });
                }
                self.exchange(env, ExchangeInput::Tick);
                self.sleep(env, shell);
            }
            AgentShell::Maintenance => self.maintain(env, MaintenanceInput::Tick),
        }
        self.follow_wakers(env);
    }

    /// Ends the sleep of the shells whose wakers were called. To be called after each operation.
    pub(super) fn follow_wakers(&mut self, env: &mut Environment<'c>) {
        let own_now = self.time(env.now());
        for shell in [AgentShell::Exchange, AgentShell::Maintenance] {
            let Some(running) = &mut self.running else { return };
            let sleep = running.sleep_of(shell);
            let is_lost = env.bug.is_some_and(|bug| bug.loses_wake_up(shell));
            if sleep.woken.0.swap(false, Ordering::Relaxed) && !is_lost {
                self.sleep_until(env, shell, own_now);
            }
        }
    }

    /// Lets a shell sleep until its state machine has work.
    pub(super) fn sleep(&mut self, env: &mut Environment<'c>, shell: AgentShell) {
        let own_now = self.time(env.now());
        let Some(running) = self.running.as_ref().filter(|running| running.engine.settings().publishes) else { return };
        let until = match shell {
            AgentShell::Maintenance => running.maintenance.wake_at(own_now),
            AgentShell::Exchange => {
                let wake_at = running.exchange.wake_at(own_now);
                running.exchange.reports_at(own_now).map_or(wake_at, |reports_at| reports_at.min(wake_at))
            }
        };
        self.sleep_until(env, shell, env.bug.map_or(until, |bug| bug.wake_at(until)));
    }

    fn sleep_until(&mut self, env: &mut Environment<'c>, shell: AgentShell, until: Timestamp) {
        let own_now = self.time(env.now());
        let Some(running) = &mut self.running else { return };
        running.sleep_of(shell).until = until;
        let wakes = SimEvent::AgentWakes { agent: self.index, life: self.life, shell };
        if until < Timestamp::from_ms(u64::MAX) {
            env.scheduler.after(until.ms_since(own_now), wakes);
        }
    }
}
