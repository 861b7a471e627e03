//! E8: an agent that decides by signals counts its own units until a signal contains them, whichever thread admitted
//! them and whatever the writer was doing at that moment.

use fastrand::Rng;
use tollgate::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_sim::{Faults, Observation, PlantedBug, SimSettings, Simulation, StoreState};

const START: Timestamp = Timestamp::from_ms(1_700_000_000_000);
const RULES: &str = "
version: 1
rules: [{ name: key, per: [api_key], quota: 300/h }]
";
const QUOTA: usize = 300;
const CALLS: usize = 600;
/// Mean number of calls in a second.
const CALLS_PER_S: usize = 200;
const SEEDS: u64 = 20;

/// Lets one agent without a store decide calls by signals, within one window. Returns the number of those that it admitted.
fn admitted_by_signals(seed: u64, garbage_percent: u8, bug: Option<PlantedBug>) -> usize {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).expect("valid rules");
    let settings = SimSettings {
        seed,
        faults: Faults { bus_ms_max: 10, ack_ms_max: 10, garbage_percent, ..Faults::default() },
        threshold_permille: 0,
        ..SimSettings::fleet(START, 1)
    };
    let mut sim = Simulation::new(settings, &rules);
    if let Some(bug) = bug {
        sim.plant(bug);
    }
    let (mut rng, mut admitted) = (Rng::with_seed(seed), 0);
    // The store tells its time before it fails, and signals are read for a while.
    sim.run_until(START.plus_ms(3_000));
    sim.set_store(StoreState::Unreachable);
    for _ in 0..CALLS {
        let until = sim.now().plus_ms(rng.u64(0..10));
        sim.run_until(until);
        sim.check(0, vec![Call::new().with("api_key", "k")]);
        for observation in sim.observations() {
            if let Observation::Answered(answered) = observation {
                // After a forged offset that is only a little beyond the end, signals are read anew.
                let is_forged = garbage_percent > 0 && answered.decision.source == Source::Fallback;
                assert!(answered.decision.source == Source::Signal || is_forged, "{:?}", answered.decision.source);
                admitted += usize::from(answered.decision.allowed);
            }
        }
    }
    admitted
}

#[test]
fn an_agent_alone_that_decides_by_signals_is_never_over() {
    for seed in 0..SEEDS {
        assert_eq!(admitted_by_signals(seed, 0, None), QUOTA, "seed {seed}");
    }
}

/// Forged records of every topic: the agent goes on to decide by the honest signals, or alone. A forged offset that is
/// only a little beyond the end seems to count its own units, until the agent notices it a second later. From then on,
/// it may count some of them twice.
#[test]
fn forged_records_admit_at_most_a_second_of_calls_more() {
    let admitted: Vec<_> = (0..SEEDS).map(|seed| admitted_by_signals(seed, 30, None)).collect();
    assert!(admitted.iter().all(|admitted| (QUOTA / 2..=QUOTA + CALLS_PER_S).contains(admitted)), "{admitted:?}");
}

/// Planted bug: as if the writer raised the number of a round after it has collected the rows.
#[test]
fn a_row_that_misses_its_round_is_found() {
    let admitted: Vec<_> = (0..SEEDS).map(|seed| admitted_by_signals(seed, 0, Some(PlantedBug::RowLate))).collect();
    assert!(admitted.iter().any(|admitted| *admitted > QUOTA), "{admitted:?}");
}
