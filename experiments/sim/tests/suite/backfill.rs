//! The return of a store after an outage in which an agent has admitted thousands of calls on one counter: the store
//! learns all of them within a second, in requests that hold up nobody else.

use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_engine::{BACKFILL_CHARGES_MAX, Engine, UNSYNCED_ENTRIES_OF_COUNTER_MAX};
use tollgate_sim::{Faults, Observation, SimAgentSettings, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_763_700_000_000);
const RULES: &str = "
version: 1
rules: [{ name: key, per: [api_key], quota: 1000000/min, on_failure: open }]
";
/// Calls of the outage, one each millisecond.
const CALLS: u64 = 9_000;
/// Time in which the store learns all units, in ms.
const RETURN_MS: u64 = 1_000;

/// An agent whose store fails, and the calls that it has admitted on one counter.
struct Outage {
    sim: Simulation<'static>,
    calls: u64,
    admitted: u64,
    /// Largest number of charges in one request of the maintenance.
    charges_most: usize,
}

impl Outage {
    fn begin() -> Self {
        let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
        let settings = SimSettings {
            agents: vec![SimAgentSettings::default()],
            aggregators: 1,
            has_bus: true,
            faults: Faults { store_ms_max: 1, ..Faults::default() },
            ..SimSettings::instant(START)
        };
        let mut outage = Self { sim: Simulation::new(settings, &rules), calls: 0, admitted: 0, charges_most: 0 };
        outage.pass(1_000);
        outage.sim.set_store(StoreState::Refusing);
        outage
    }

    /// Lets a call come, with an id of its own.
    fn call(&mut self) {
        self.calls += 1;
        let id = self.calls.to_string();
        self.sim.check(0, vec![Call::new().with("api_key", "k").identified(id)]);
        self.pass(1);
    }

    fn pass(&mut self, ms: u64) {
        self.sim.run_until(self.sim.now().plus_ms(ms));
        for observation in self.sim.observations() {
            match observation {
                Observation::Answered(call) => self.admitted += u64::from(call.decision.allowed),
                Observation::Finished { charges, is_backfill: true, .. } => {
                    self.charges_most = self.charges_most.max(charges.len());
                }
                _ => {}
            }
        }
    }

    fn engine(&self) -> &Engine {
        self.sim.agents()[0].engine().expect("it runs")
    }

    /// Returns the units of the counter in the store.
    fn stored(&self) -> u64 {
        let counter = DigestKey::default().counter("key", ["k"]);
        let admitted = self.sim.store().peek(counter).map(|state| state.admitted()).unwrap_or_default();
        admitted.iter().map(|(_, units)| units).sum()
    }
}

/// capped, I12: more calls with an id than the cap on entries of a counter. No unit is lost, and no request is large.
#[test]
fn every_unit_of_an_outage_is_in_the_store_a_second_after_its_return() {
    let mut outage = Outage::begin();
    (0..CALLS).for_each(|_| outage.call());
    assert!(outage.engine().is_degraded() && outage.stored() == 0);
    assert_eq!((outage.admitted, outage.engine().metrics().unsynced_units.get()), (CALLS, CALLS));
    outage.sim.set_store(StoreState::Up);
    outage.pass(RETURN_MS);
    assert!(!outage.engine().needs_store(), "the agent uses the store");
    assert_eq!((outage.stored(), outage.engine().metrics().unsynced_units.get()), (CALLS, 0));
    assert!((1..=BACKFILL_CHARGES_MAX).contains(&outage.charges_most), "{} charges", outage.charges_most);
    let entries = outage.engine().held().unsynced_entries_most;
    assert!(entries <= UNSYNCED_ENTRIES_OF_COUNTER_MAX, "{entries} entries");
}

/// The calls that come while the store learns of the others do not keep the agent from using it.
#[test]
fn an_agent_with_steady_calls_uses_the_store_a_second_after_its_return() {
    let mut outage = Outage::begin();
    (0..CALLS).for_each(|_| outage.call());
    outage.sim.set_store(StoreState::Up);
    (0..RETURN_MS).for_each(|_| outage.call());
    assert!(!outage.engine().is_degraded());
    outage.pass(RETURN_MS);
    assert_eq!((outage.stored(), outage.admitted), (outage.calls, outage.calls));
    assert!(outage.charges_most <= BACKFILL_CHARGES_MAX, "{} charges", outage.charges_most);
}
