//! State of the maintenance. The files after this one change it, each for one kind of duty.

use std::sync::Arc;
use std::task::Waker;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::PrimaryIndex;
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::AnnouncedRules;
use tollgate_core::rules::Generation;

use super::probe_pace::ProbePace;
use super::witness::Witness;
use crate::engine::Engine;
use crate::fleet::AgentIds;

/// Duties of an agent that depend on its store.
#[derive(Clone, Copy, Debug)]
pub struct MaintenanceSettings {
    /// True if the agents of the fleet announce themselves in the store.
    pub announces: bool,
    /// True if the store keeps a number for the agent, by which it sees that the store has lost its data.
    pub witnesses: bool,
    /// True if the agent follows the rules that are published in the store.
    pub follows_rules: bool,
}

/// Work of an agent beside its calls.
pub struct Maintenance {
    pub(super) engine: Arc<Engine>,
    pub(super) settings: MaintenanceSettings,
    pub(super) shell: Option<Waker>,
    /// State of each primary that has had a slot.
    pub(super) primaries: Vec<PrimaryDuties>,
    pub(super) announcing: bool,
    /// Rules that were announced last.
    pub(super) announced: Option<AnnouncedRules>,
    /// Generation of the rules that were published in the store at the last announcement, and when they were read last.
    pub(super) published: PublishedGenerations,
    pub(super) reading_rules: bool,
    /// Number of times in a row that published rules could be read from nowhere.
    pub(super) rules_missed: u32,
    pub(super) announce_at: Timestamp,
    pub(super) rules_at: Timestamp,
    pub(super) save_at: Timestamp,
    pub(super) housekeeping_at: Timestamp,
    pub(super) saved: Option<AgentIds>,
    pub(super) saved_emergency: Option<EmergencySwitch>,
}

/// Duties of the maintenance toward one primary of the store.
pub(super) struct PrimaryDuties {
    pub(super) answered: LastAnswer,
    pub(super) probe: Option<Probe>,
    pub(super) pace: ProbePace,
    pub(super) losses: LossDuties,
    pub(super) resync_at: Timestamp,
}

/// Answer to the last request that the maintenance itself sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastAnswer {
    Missing,
    /// It was a ping, and too late for some calls.
    Late,
    InTime,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PublishedGenerations {
    pub(super) told: Option<Generation>,
    pub(super) read: Option<Generation>,
}

/// Probe that is under way: a ping, and then backfills.
#[derive(Default)]
pub(super) struct Probe {
    pub(super) ping_sent: Timestamp,
    pub(super) ping_took_ms: u64,
    /// True if calls would have missed their deadline.
    pub(super) is_late: bool,
    /// True if only a miss called for the probe. An answer to it then does not mean that the store is back.
    pub(super) is_of_miss: bool,
    pub(super) awaits_witness: bool,
}

#[derive(Debug, Default)]
pub(super) struct LossDuties {
    pub(super) witness: Witness,
    /// Number of changes of the slots when the witness was answered last.
    pub(super) slot_changes: usize,
    pub(super) is_reopening: bool,
    pub(super) reopen_at: Timestamp,
}

impl Maintenance {
    /// Creates the maintenance of an agent.
    #[must_use]
    pub fn new(engine: Arc<Engine>, settings: MaintenanceSettings) -> Self {
        let mut maintenance = Self {
            engine,
            settings,
            shell: None,
            primaries: Vec::new(),
            announcing: false,
            announced: None,
            published: PublishedGenerations::default(),
            reading_rules: false,
            rules_missed: 0,
            announce_at: Timestamp::default(),
            rules_at: Timestamp::default(),
            save_at: Timestamp::default(),
            housekeeping_at: Timestamp::default(),
            saved: None,
            saved_emergency: None,
        };
        maintenance.meet_primaries();
        maintenance
    }

    /// Begins the duties toward primaries that have got their first slot.
    pub(super) fn meet_primaries(&mut self) {
        // Counts in the engine's own table, or by signals alone, need no store.
        let answered = if self.engine.store.is_outside() { LastAnswer::Missing } else { LastAnswer::InTime };
        for _ in self.engine.store.known_primaries().skip(self.primaries.len()) {
            self.primaries.push(PrimaryDuties {
                answered,
                probe: None,
                pace: ProbePace::default(),
                losses: LossDuties::default(),
                resync_at: Timestamp::default(),
            });
        }
    }

    #[inline]
    pub(super) fn duties(&mut self, primary: PrimaryIndex) -> &mut PrimaryDuties {
        &mut self.primaries[primary.index()]
    }
}
