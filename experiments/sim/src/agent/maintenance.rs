//! Maintenance of a simulated agent: the effects of its state machine.

use tollgate_engine::{MaintenanceEffect, MaintenanceInput};

use super::life::AgentLife;
use crate::environment::Environment;
use crate::event::AgentShell;
use crate::observation::Observation;

impl<'c> AgentLife<'c> {
    pub(super) fn maintain(&mut self, env: &mut Environment<'c>, input: MaintenanceInput) {
        self.ticked_at = self.now(env);
        let mut effects = Vec::new();
        self.maintenance.poll(self.ticked_at, input, &mut effects);
        for effect in effects {
            match effect {
                MaintenanceEffect::Send(request) => self.request_for_maintenance(env, request),
                MaintenanceEffect::SaveAgents(agents) => env.save_agents(self.index, agents),
                MaintenanceEffect::SaveEmergency(switch) => env.save_emergency(self.index, switch),
                MaintenanceEffect::Notify(notice) => env.observe(Observation::Notified(self.index, notice)),
            }
        }
        self.sleep(env, AgentShell::Maintenance);
    }
}
