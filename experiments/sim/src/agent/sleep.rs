//! The sleep of an agent's two shells between their ticks, as in `agent/src/runtime`: each sleeps exactly until the
//! time that its state machine named, unless the waker that it gave to the state machine is called earlier.
//!
//! An agent without a bus does not sleep; calls tick its maintenance.

use std::sync::atomic::Ordering;

use tollgate_core::clock::Timestamp;
use tollgate_engine::{ExchangeInput, MaintenanceInput};

use super::life::AgentLife;
use crate::environment::Environment;
use crate::event::{AgentEvent, AgentShell};
use crate::planted_bugs::PlantedBug;

const NEVER: Timestamp = Timestamp::from_ms(u64::MAX);

impl<'c> AgentLife<'c> {
    /// The sleep of a shell may be over.
    pub(super) fn wake(&mut self, env: &mut Environment<'c>, shell: AgentShell) {
        if self.now(env) < self.sleeps[shell as usize].until {
            return;
        }
        match shell {
            AgentShell::Exchange => {
                for report in std::mem::take(&mut self.reports) {
                    self.exchange(env, report);
                }
                self.exchange(env, ExchangeInput::Tick);
                self.sleep(env, shell);
            }
            AgentShell::Maintenance => self.maintain(env, MaintenanceInput::Tick),
        }
    }

    /// Ends the sleep of the shells whose wakers were called. To be called after each operation.
    pub(super) fn follow_wakers(&mut self, env: &mut Environment<'c>) {
        let shells = [
            (AgentShell::Exchange, PlantedBug::WriterNotWoken),
            (AgentShell::Maintenance, PlantedBug::MaintenanceNotWoken),
        ];
        for (shell, bug) in shells {
            if self.sleeps[shell as usize].woken.0.swap(false, Ordering::Relaxed) && !env.has(bug) {
                self.sleep_until(env, shell, self.now(env));
            }
        }
    }

    /// Lets a shell sleep until its state machine has work.
    pub(super) fn sleep(&mut self, env: &mut Environment<'c>, shell: AgentShell) {
        if !self.engine.settings().publishes {
            return;
        }
        let own_now = self.now(env);
        let until = match shell {
            AgentShell::Maintenance => self.maintenance.wake_at(own_now),
            AgentShell::Exchange => {
                let wake_at = self.exchange.wake_at(own_now);
                self.exchange.reports_at(own_now).map_or(wake_at, |reports_at| reports_at.min(wake_at))
            }
        };
        self.sleep_until(env, shell, if env.has(PlantedBug::NextTickLost) { NEVER } else { until });
    }

    fn sleep_until(&mut self, env: &mut Environment<'c>, shell: AgentShell, until: Timestamp) {
        self.sleeps[shell as usize].until = until;
        if until < NEVER {
            let ms = self.clock.ms_until(env.now(), until);
            self.later(env, ms, AgentEvent::Wakes(shell));
        }
    }
}
