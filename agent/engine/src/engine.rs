//! The engine: the parts of one agent, the rules in force, and housekeeping.
//!
//! All methods may be called from many threads at once. Operations begin in [`operation`](crate::request::operation).

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use atomic_waker::AtomicWaker;
use parking_lot::{Mutex, RwLock};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::RequestId;
use tollgate_core::decision::{DENY_LIST, EMERGENCY};
use tollgate_core::messages::presence::{AnnouncedRules, INTERVAL_MS, PresenceSet};
use tollgate_core::name::Name;
use tollgate_core::newcomers::Newcomers;
use tollgate_core::rules::{Generation, RuleSet};

use crate::bus::{DeadLetterCounts, RowBuffers, Signals};
use crate::counters::{AgentTable, Sketches};
use crate::engine_settings::EngineSettings;
use crate::fleet::{AgentIds, Fleet, FleetPart, RegistryNews, newcomers_len_max};
use crate::report::{CallNumbers, EngineMetrics, Notice, NoticeQueue, RuleCounts};
use crate::rules::{ActiveRules, LearnedEmergency, RulesInForce};
use crate::store::{Breaker, Corrections, Losses, NOTICE_INTERVAL_MS, ResetAnnouncements, UnsyncedQueue};
use crate::time::{LeaseEpochs, ServerClock, TimeBounds};

/// Time between an agent's first heartbeat and the first one that counts, in ms. It is shorter than one interval, and
/// longer than a repetition of the same record takes.
const HEARD_MS_MIN: u64 = INTERVAL_MS / 2;

/// One agent without its input and output.
pub struct Engine {
    pub(crate) settings: EngineSettings,
    /// Name and start of the agent in decisions.
    pub(crate) life: Name,
    pub(crate) rules: RulesInForce,
    pub(crate) table: AgentTable,
    pub(crate) sketches: Sketches,
    pub(crate) store_clock: RwLock<ServerClock>,
    pub(crate) breaker: Breaker,
    pub(crate) lease_epochs: LeaseEpochs,
    /// True once a ping was answered.
    pub(crate) reached_store: AtomicBool,
    pub(crate) maintenance_waker: AtomicWaker,
    pub(crate) notices: Mutex<NoticeQueue>,
    pub(crate) rows: RowBuffers,
    pub(crate) signals: Signals,
    pub(crate) fleet: Fleet,
    /// Agents that are no members of the fleet yet, by name.
    pub(crate) newcomers: Mutex<Newcomers<Arc<str>>>,
    pub(crate) dead_letters: DeadLetterCounts,
    pub(crate) calls: CallNumbers,
    pub(crate) unsynced: UnsyncedQueue,
    /// Corrections that the store does not know.
    pub(crate) corrections: Mutex<Corrections>,
    pub(crate) losses: Losses,
    /// First of the ids under which this life of the agent backfills; that of a call is so many places after it.
    pub(crate) backfill_ids: RequestId,
    pub(crate) bus_error: Mutex<Option<String>>,
    pub(crate) bus_connected: AtomicBool,
    pub(crate) unlimited: Arc<RuleCounts>,
    pub(crate) listed: Arc<RuleCounts>,
    pub(crate) in_emergency: Arc<RuleCounts>,
    pub(crate) deny_list: Name,
    pub(crate) metrics: EngineMetrics,
    /// Latest change of the emergency switch. A thread holds the lock while it puts rules in force.
    pub(crate) emergency: Mutex<LearnedEmergency>,
    pub(crate) resets: Mutex<ResetAnnouncements>,
    /// False while no reset is known, as mostly.
    pub(crate) knows_resets: AtomicBool,
    pub(crate) registry: RegistryNews,
    rejection: Mutex<Option<String>>,
    /// True if no source of published rules can be read.
    rules_unreachable: AtomicBool,
    /// Time at which the rules in force were accepted, in ms; 0 before there are any.
    rules_accepted_ms: AtomicU64,
    ticks: AtomicUsize,
    /// Time from which late denials are worth a notice, in ms.
    late_notice_at_ms: AtomicU64,
}

pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    pub(crate) bounds: TimeBounds,
    pub(crate) active: &'a Arc<ActiveRules>,
}

impl Engine {
    /// Creates an agent with these rules, as its settings enforce them.
    #[must_use]
    pub fn new(mut settings: EngineSettings, rules: RuleSet) -> Self {
        let rules = settings.enforced(rules);
        let metrics = EngineMetrics::default();
        let (node, epoch, saved) = (settings.node.clone(), settings.epoch, settings.saved_agents.take());
        let rules_accepted_ms = if rules.generation == 0 { 0 } else { settings.epoch.as_ms() };
        Self {
            life: format!("{}-{:x}", settings.node, settings.epoch.as_ms()).as_str().into(),
            rules: RulesInForce::new(ActiveRules::new(rules, &metrics)),
            table: AgentTable::new(settings.counters_max),
            sketches: Sketches::new(settings.sketch_bytes),
            store_clock: RwLock::default(),
            breaker: Breaker::default(),
            lease_epochs: LeaseEpochs::default(),
            reached_store: AtomicBool::default(),
            maintenance_waker: AtomicWaker::default(),
            notices: Mutex::default(),
            rows: RowBuffers::default(),
            signals: Signals::new(settings.partitions),
            fleet: Fleet::new(node, epoch, settings.agents_expected, saved),
            newcomers: Mutex::new(Newcomers::new(HEARD_MS_MIN, newcomers_len_max(settings.agents_expected))),
            dead_letters: DeadLetterCounts::default(),
            calls: CallNumbers::default(),
            unsynced: UnsyncedQueue::default(),
            corrections: Mutex::default(),
            losses: Losses::default(),
            registry: RegistryNews::default(),
            backfill_ids: settings.digest_key.backfill(&settings.node, settings.epoch),
            bus_error: Mutex::default(),
            bus_connected: AtomicBool::default(),
            unlimited: metrics.of_rule(&"".into()),
            listed: metrics.of_rule(&DENY_LIST.into()),
            in_emergency: metrics.of_rule(&EMERGENCY.into()),
            deny_list: DENY_LIST.into(),
            metrics,
            emergency: Mutex::default(),
            resets: Mutex::default(),
            knows_resets: AtomicBool::new(false),
            rejection: Mutex::default(),
            rules_unreachable: AtomicBool::default(),
            rules_accepted_ms: AtomicU64::new(rules_accepted_ms),
            ticks: AtomicUsize::new(0),
            late_notice_at_ms: AtomicU64::default(),
            settings,
        }
    }

    /// Returns the identity and caps of the agent.
    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// Applies a function to the rules in force.
    pub fn with_rules<R>(&self, look: impl FnOnce(&RuleSet) -> R) -> R {
        look(&self.rules.load().set)
    }

    /// Puts rules in force, as the agent's settings enforce them. Counters keep their counts.
    ///
    /// # Errors
    /// If a newer set of the same numbering is in force, or a different one of the same generation; returns the generation in force.
    pub fn set_rules(&self, now: Timestamp, rules: RuleSet) -> Result<(), Generation> {
        let _switching = self.emergency.lock();
        let active = self.rules.load();
        let (in_force, rules) = (active.set.generation, self.settings.enforced(rules));
        if !rules.may_replace(&active.set) {
            return Err(in_force);
        }
        self.rules.store(ActiveRules::new(rules, &self.metrics).after(&active));
        self.rules_accepted_ms.store(now.as_ms(), Ordering::Relaxed);
        *self.rejection.lock() = None;
        // Calls may wait longer by the new rules.
        self.breaker.forget_deadline();
        // The store orders the rules of all agents.
        self.maintenance_waker.wake();
        Ok(())
    }

    /// Returns the time at which rules were accepted last; time 0 before there are any.
    #[must_use]
    pub fn rules_accepted_at(&self) -> Timestamp {
        Timestamp::from_ms(self.rules_accepted_ms.load(Ordering::Relaxed))
    }

    /// Records that rules were refused, and the reason. The set in force stays.
    pub fn reject_rules(&self, reason: String) {
        self.metrics.rules_rejected.add(1);
        *self.rejection.lock() = Some(reason);
    }

    /// Returns the reason why the last rules were refused, unless rules have been accepted since.
    #[must_use]
    pub fn rejection(&self) -> Option<String> {
        self.rejection.lock().clone()
    }

    /// Tells an operator that calls are denied because the store is late, at most once a minute.
    pub(crate) fn note_late_denial(&self, now: Timestamp) {
        let due_at = self.late_notice_at_ms.load(Ordering::Relaxed);
        let next = now.plus_ms(NOTICE_INTERVAL_MS).as_ms();
        let set = |from| self.late_notice_at_ms.compare_exchange(from, next, Ordering::Relaxed, Ordering::Relaxed);
        if now.as_ms() >= due_at && set(due_at).is_ok() {
            self.notify(Notice::StoreLate);
        }
    }

    /// Records whether published rules can be read. An operator is told of each change.
    pub(crate) fn note_rules_source(&self, is_reachable: bool) {
        if self.rules_unreachable.swap(!is_reachable, Ordering::Relaxed) == is_reachable {
            self.notify(if is_reachable { Notice::RulesReachable } else { Notice::RulesUnreachable });
        }
    }

    /// Returns true if the agent follows published rules and can read them from nowhere.
    #[must_use]
    pub fn is_cut_off_from_rules(&self) -> bool {
        self.rules_unreachable.load(Ordering::Relaxed)
    }

    /// Returns the rules in force as they are announced in the store, if there are any.
    pub(crate) fn announced_rules(&self) -> Option<AnnouncedRules> {
        let active = self.rules.load();
        let (numbering, generation, order) = (active.set.numbering, active.set.generation, active.order);
        (generation > 0).then_some(AnnouncedRules { numbering, generation, order, rank: 0 })
    }

    /// Follows the answer to an announcement. Rules that become the newest of the fleet change the policies of counters, so
    /// that a denial of before may not hold any more.
    pub(crate) fn note_registry(&self, set: &PresenceSet) {
        let (has_newer, notice) = self.registry.follow(set);
        if has_newer {
            self.table.end_all_denials();
        }
        if let Some(notice) = notice {
            self.notify(notice);
        }
    }

    /// Returns true if other agents that share the store digest callers by another key.
    #[must_use]
    pub fn do_digest_keys_differ(&self) -> bool {
        self.registry.do_digest_keys_differ()
    }

    /// Runs housekeeping: sweeps a part of the table and follows the fleet. The maintenance calls it a few times a
    /// second.
    pub(crate) fn tick(&self, now: Timestamp) {
        self.table.sweep(self.ticks.fetch_add(1, Ordering::Relaxed), self.store_time(now).earliest);
        self.fleet.tick(now).into_iter().for_each(|notice| self.notify(notice));
        if self.sketches.is_used() && self.sketches.end_use(now, self.table.len(), self.settings.counters_max) {
            self.notify(Notice::TableHasRoom);
        }
    }

    /// Returns the number of active agents.
    #[must_use]
    pub fn fleet_size(&self) -> NonZeroU32 {
        self.fleet.size()
    }

    /// Returns this agent's part of each quota while the store does not decide.
    #[must_use]
    pub fn fleet_part(&self) -> FleetPart {
        self.fleet.part()
    }

    /// Returns the number of agents in the fleet; none before presence or a saved state tells it.
    #[must_use]
    pub fn known_fleet_size(&self) -> Option<NonZeroU32> {
        let is_expected = matches!(self.fleet.part(), FleetPart::Expected(_));
        (self.settings.owns_table || !is_expected).then(|| self.fleet.size())
    }

    /// Returns true while the members of the fleet are not followed, because no own heartbeat comes back.
    #[must_use]
    pub fn is_fleet_frozen(&self) -> bool {
        self.fleet.is_frozen()
    }

    /// Returns the ids of the active agents in ascending order, if they are known from presence or from the saved state.
    #[must_use]
    pub fn known_agents(&self) -> Option<AgentIds> {
        self.fleet.is_known().then(|| self.fleet.ids())
    }

    /// Returns the counts of this engine.
    #[must_use]
    pub fn metrics(&self) -> &EngineMetrics {
        &self.metrics
    }
}
