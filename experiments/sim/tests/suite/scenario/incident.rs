//! The incidents of a run: drawn before it, from its seed.

use fastrand::Rng;
use tollgate_core::clock::CLOCK_ERROR_MAX_MS;
use tollgate_sim::{Cut, SimSettings, StoreState};

use super::traffic::Request;

/// Mean number of requests of which one is followed by an incident.
const REQUESTS_PER_INCIDENT: u8 = 40;
/// Maximum step of the store's clock, in ms: longer than any count is kept.
const STEP_MS_MAX: i64 = 120_000;
/// Begin of the last part of a run, in which no topic is recreated, in ms.
const LAST_PART_MS: u64 = 5_000;

/// An incident: the instant at which it strikes, and the time until its repair.
#[derive(Clone, Debug)]
pub(crate) struct Incident {
    pub(crate) at_ms: u64,
    pub(crate) lasts_ms: u64,
    pub(crate) what: What,
}

/// An incident without its times. Agents and aggregators are given by their indices.
#[derive(Clone, Debug)]
pub(crate) enum What {
    StoreIs(StoreState),
    /// All data is deleted: by a flush, or by a restart without data.
    StoreFlushed {
        restarts: bool,
    },
    /// The replica stands still, and takes over in the end: the writes meanwhile are lost.
    StoreFailsOver,
    /// A step by a size; nearly to a full second, if a distance from it is given. A glitch is taken back.
    StoreClockSteps {
        by_ms: i64,
        from_second_ms: Option<i64>,
        is_glitch: bool,
    },
    BusFails,
    /// Neither the store nor the bus can be reached.
    Blackout,
    AgentEnds {
        agent: usize,
        crashes: bool,
    },
    /// The agent crashes so many times, each time soon after its start.
    AgentCrashLoops {
        agent: usize,
        times: u64,
    },
    AgentPauses(usize),
    /// A part of the fleet is cut from servers.
    AgentsCut(Vec<usize>, Cut),
    AggregatorEnds {
        aggregator: usize,
        crashes: bool,
    },
    AggregatorPauses(usize),
    /// The aggregator counts and signals, but it is cut from `presence`: another one counts its partitions, too.
    AggregatorDoubled(usize),
    RulesChange {
        agent: usize,
        are_newer: bool,
    },
    TopicRecreated,
}

/// The kinds of incidents of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    StoreFails,
    StorePauses,
    StoreFlushed,
    StoreFailsOver,
    StoreClockSteps,
    BusFails,
    AgentEnds,
    AgentCrashLoops,
    AgentPauses,
    AgentsCut,
    AggregatorEnds,
    AggregatorPauses,
    AggregatorDoubled,
    RulesChange,
    TopicRecreated,
}

/// Draws the incidents of a run: its kinds, and how often they strike.
pub(crate) fn draw(rng: &mut Rng, settings: &SimSettings, requests: &[Request]) -> Vec<Incident> {
    let all = [
        Kind::StoreFails,
        Kind::StoreClockSteps,
        Kind::BusFails,
        Kind::AgentEnds,
        Kind::AggregatorEnds,
        Kind::AggregatorPauses,
        Kind::AggregatorDoubled,
        Kind::RulesChange,
        Kind::TopicRecreated,
        Kind::StorePauses,
        Kind::AgentPauses,
        Kind::AgentCrashLoops,
        Kind::AgentsCut,
        Kind::StoreFlushed,
        Kind::StoreFailsOver,
    ];
    let is_rare = |kind: Kind| {
        matches!(
            kind,
            Kind::TopicRecreated
                | Kind::StoreClockSteps
                | Kind::AgentCrashLoops
                | Kind::AgentsCut
                | Kind::StoreFlushed
                | Kind::StoreFailsOver
        )
    };
    let is_drawn = |kind: &Kind| rng.u8(0..8) < if is_rare(*kind) { 2 } else { 4 };
    let mut kinds: Vec<_> = all.into_iter().filter(is_drawn).collect();
    if rng.u8(0..4) == 0 {
        // While the store answers, agents lease most.
        kinds.clear();
    }
    let mut incidents = Vec::new();
    if rng.u8(0..3) == 0 {
        // The second aggregator starts late.
        let what = What::AggregatorEnds { aggregator: 1, crashes: true };
        incidents.push(Incident { at_ms: 0, lasts_ms: rng.u64(1_500..4_000), what });
    }
    for Request { at_ms, .. } in requests {
        if !kinds.is_empty() && rng.u8(0..REQUESTS_PER_INCIDENT) == 0 {
            incidents.extend(kinds[rng.usize(0..kinds.len())].draw(rng, settings, *at_ms));
        }
    }
    incidents
}

/// Draws a time in which neither the store nor the bus can be reached for longer than a member is missed.
pub(crate) fn blackout(rng: &mut Rng) -> Incident {
    Incident { at_ms: rng.u64(3_000..5_000), lasts_ms: rng.u64(14_000..20_000), what: What::Blackout }
}

/// Draws newer rules for the whole fleet, early in the run: one agent after the other gets them, while the others still hold leases
/// of the older ones.
pub(crate) fn early_change(rng: &mut Rng, settings: &SimSettings) -> Vec<Incident> {
    let mut at_ms = rng.u64(500..2_500);
    let mut change = |(place, agent): (usize, usize)| {
        at_ms += rng.u64(0..600);
        Incident { at_ms, lasts_ms: 0, what: What::RulesChange { agent, are_newer: place == 0 } }
    };
    (0..settings.agents.len()).rev().enumerate().map(&mut change).collect()
}

impl Incident {
    /// Returns the instant of its repair.
    pub(crate) fn ends_ms(&self) -> u64 {
        self.at_ms + self.lasts_ms
    }

    /// Returns true if it may strike in a world of regions, where rules change by the plan.
    pub(crate) fn is_of_regions(&self) -> bool {
        !matches!(self.what, What::RulesChange { .. })
    }
}

impl What {
    /// Returns the last of the agents that it strikes, if it strikes single ones.
    pub(crate) fn agent_max(&self) -> Option<usize> {
        match self {
            Self::AgentEnds { agent, .. }
            | Self::AgentCrashLoops { agent, .. }
            | Self::AgentPauses(agent)
            | Self::RulesChange { agent, .. } => Some(*agent),
            Self::AgentsCut(agents, _) => agents.last().copied(),
            _ => None,
        }
    }
}

impl Kind {
    fn draw(self, rng: &mut Rng, settings: &SimSettings, at_ms: u64) -> Option<Incident> {
        let (agents, aggregators) = (settings.agents.len(), settings.aggregators);
        let mut lasts_ms = rng.u64(20..1_500);
        let what = match self {
            Self::StoreFails => {
                let states = [
                    StoreState::Slow(rng.u64(1..30)),
                    StoreState::Silent,
                    StoreState::Refusing,
                    StoreState::Unreachable,
                ];
                What::StoreIs(states[rng.usize(0..states.len())])
            }
            // Shorter and longer than a deadline: answers come late, or requests have expired.
            Self::StorePauses => {
                lasts_ms = rng.u64(2..100);
                What::StoreIs(StoreState::Silent)
            }
            Self::StoreFlushed => What::StoreFlushed { restarts: rng.bool() },
            Self::StoreFailsOver => What::StoreFailsOver,
            Self::StoreClockSteps => step(rng),
            Self::BusFails => What::BusFails,
            Self::AgentEnds => {
                lasts_ms = rng.u64(20..2_000);
                What::AgentEnds { agent: rng.usize(0..agents), crashes: rng.bool() }
            }
            Self::AgentCrashLoops => {
                lasts_ms = rng.u64(500..2_000);
                What::AgentCrashLoops { agent: rng.usize(0..agents), times: rng.u64(3..8) }
            }
            Self::AgentPauses => {
                // A third of them outlast sub-windows, and leases with them.
                lasts_ms = if rng.u8(0..3) == 0 { rng.u64(100..3_000) } else { rng.u64(2..100) };
                What::AgentPauses(rng.usize(0..agents))
            }
            Self::AgentsCut => {
                let cut = Cut { store: rng.bool(), bus_writes: rng.bool(), bus_reads: rng.bool(), store_late_ms: 0 };
                What::AgentsCut((0..agents).filter(|_| rng.bool()).collect(), cut)
            }
            Self::AggregatorEnds => {
                lasts_ms = rng.u64(20..4_000);
                What::AggregatorEnds { aggregator: rng.usize(0..aggregators), crashes: rng.bool() }
            }
            Self::AggregatorPauses => {
                lasts_ms = rng.u64(50..3_000);
                What::AggregatorPauses(rng.usize(0..aggregators))
            }
            Self::AggregatorDoubled => {
                lasts_ms = rng.u64(1_000..5_000);
                What::AggregatorDoubled(rng.usize(0..aggregators))
            }
            Self::RulesChange => What::RulesChange { agent: rng.usize(0..agents), are_newer: rng.bool() },
            Self::TopicRecreated if at_ms < LAST_PART_MS => What::TopicRecreated,
            Self::TopicRecreated => return None,
        };
        Some(Incident { at_ms, lasts_ms, what })
    }
}

/// Draws a step of a clock: below the clock error, around it, or past every window; half of the steps end at the edge of a
/// sub-window, since a second is a multiple of all but one of them. Larger steps are also in `clock_steps.rs`.
fn step(rng: &mut Rng) -> What {
    let small = i64::try_from(CLOCK_ERROR_MAX_MS).unwrap_or_default();
    let size_ms = match rng.u8(0..3) {
        0 => rng.i64(1..small),
        1 => rng.i64(small - 5..small + 5),
        _ => rng.i64(small..STEP_MS_MAX),
    };
    let by_ms = if rng.bool() { size_ms } else { -size_ms };
    What::StoreClockSteps { by_ms, from_second_ms: rng.bool().then(|| rng.i64(-1..=1)), is_glitch: rng.bool() }
}
