//! A fleet beside the reference: the same requests at the same instants, decided by agents with leases and by one store
//! without.

use std::num::NonZeroU32;

use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::LocalAnswer;
use tollgate_sim::reference::ReferenceStore;
use tollgate_sim::{Faults, Observation, SimSettings, Simulation};

pub(crate) const START: Timestamp = Timestamp::from_ms(1_700_000_040_000);
/// Time after which all agents know each other, in ms.
pub(crate) const KNOWN_MS: u64 = 3_500;
/// Interval at which agents read the bus, in ms. It tells them nothing but who they are.
const READ_MS: u64 = 500;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) calls: u64,
    /// Admissions by the fleet and by the reference.
    pub(crate) admitted: u64,
    pub(crate) expected: u64,
    pub(crate) leased: u64,
    pub(crate) requests: u64,
}

pub(crate) struct Fleet {
    pub(crate) sim: Simulation<'static>,
    pub(crate) reference: ReferenceStore,
    tally: Tally,
}

impl Fleet {
    pub(crate) fn new(seed: u64, agents: usize, rules: &str) -> Self {
        let rules: RuleSet = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("valid rules");
        let settings = SimSettings {
            seed,
            faults: Faults { store_ms_max: 1, ..Faults::default() },
            counters_max: 100_000,
            read_ms: READ_MS,
            ..SimSettings::fleet(START, agents)
        };
        let mut sim = Simulation::new(settings, &rules);
        sim.run_until(START.plus_ms(KNOWN_MS));
        for agent in sim.agents() {
            let known = agent.engine().and_then(tollgate_engine::Engine::known_fleet_size).map(NonZeroU32::get);
            assert_eq!(known, u32::try_from(agents).ok(), "agents know each other");
        }
        // The log of the calls would fill the memory of the test.
        sim.set_bus_up(false);
        sim.observations();
        Self { sim, reference: ReferenceStore::new(rules), tally: Tally::default() }
    }

    pub(crate) fn request(&mut self, at: Timestamp, agent: usize, calls: Vec<Call<'static>>) {
        self.pass_until(at);
        let is_expected = self.reference.admits_all(&calls, at);
        self.tally.expected += if is_expected { calls.len() as u64 } else { 0 };
        self.sim.check(agent, calls);
    }

    pub(crate) fn pass_until(&mut self, until: Timestamp) {
        if until > self.sim.now() {
            self.sim.run_until(until);
        }
        for observation in self.sim.observations() {
            match observation {
                Observation::Executed { is_part, .. } => self.tally.requests += u64::from(!is_part),
                Observation::Answered(call) => {
                    self.tally.calls += 1;
                    self.tally.admitted += u64::from(call.is_admitted);
                    self.tally.leased += u64::from(call.decision.by == Some(LocalAnswer::Lease));
                }
                _ => {}
            }
        }
    }

    /// Returns the numbers since the last time.
    pub(crate) fn take(&mut self) -> Tally {
        self.pass_until(self.sim.now().plus_ms(100));
        std::mem::take(&mut self.tally)
    }
}

impl Tally {
    /// Returns the calls that are denied beyond the reference, in percent of all.
    #[expect(clippy::cast_precision_loss, reason = "numbers of calls")]
    pub(crate) fn more_denied(&self) -> f64 {
        100.0 * (self.expected as f64 - self.admitted as f64) / self.calls as f64
    }
}
