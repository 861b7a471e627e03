//! The engine: one agent without its input and output.
//!
//! All methods may be called from many threads at once. They are of five kinds, in the order in which a shell calls them:
//!
//! * **rules and switch** (here): [`set_rules`](Engine::set_rules), [`reject_rules`](Engine::reject_rules) and
//!   [`learn_emergency`](Engine::learn_emergency), whenever a source has news;
//! * **one operation** ([`call`](crate::call), [`request`](crate::request)): [`decide`](Engine::decide) for a check of one call, then
//!   [`begin_found`](Engine::begin_found) or [`try_begin`](Engine::try_begin) with the rule that was found; [`begin`](Engine::begin) for
//!   any other operation. If the store must be asked, [`renew`](Engine::renew) after an answer that calls for another sending,
//!   [`finish`](Engine::finish) with the answer or at the deadline, and [`late_answer`](Engine::late_answer) once it comes after all;
//! * **the bus** ([`housekeeping`](crate::housekeeping)): [`receive`](Engine::receive) for each record,
//!   [`set_bus_error`](Engine::set_bus_error) for each change of its state. [`Exchange`](crate::Exchange) sends;
//! * **the store** ([`housekeeping`](crate::housekeeping)): [`Maintenance`](crate::Maintenance) does all of it;
//!   [`note_store_time`](Engine::note_store_time) takes the time of an answer that comes another way;
//! * **questions** (here and in [`housekeeping`](crate::housekeeping)): they change nothing, and may be asked at any time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{HashSlotId, PrimaryIndex};
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::PresenceSet;
use tollgate_core::rules::{Generation, Quota, RuleSet};

use crate::bus::BusLink;
use crate::counters::AgentTable;
use crate::engine_settings::EngineSettings;
use crate::fleet::{AgentIds, Fleet, FleetPart};
use crate::report::{CallIds, EngineMetrics, Notice, Reports};
use crate::rules::{ActiveRules, EngineRules};
use crate::store::StoreLink;
use crate::time::TimeBounds;

/// One agent without its input and output.
pub struct Engine {
    pub(crate) settings: Arc<EngineSettings>,
    pub(crate) reports: Arc<Reports>,
    pub(crate) ids: CallIds,
    pub(crate) rules: EngineRules,
    pub(crate) counters: Arc<AgentTable>,
    pub(crate) fleet: Fleet,
    pub(crate) bus: Arc<BusLink>,
    pub(crate) store: StoreLink,
}

/// Time and rules under which one call is decided.
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    /// Bounds of the times of all primaries.
    pub(crate) bounds: TimeBounds,
    pub(crate) active: &'a Arc<ActiveRules>,
    pub(crate) store: &'a StoreLink,
}

impl Context<'_> {
    /// Returns the bounds of the time of a primary.
    #[inline]
    pub(crate) fn bounds_of(&self, primary: PrimaryIndex) -> TimeBounds {
        if self.store.has_several_primaries() { self.store.time(primary, self.now) } else { self.bounds }
    }

    /// Returns the instant in the time of a primary at which a deadline ends. It is counted from the latest that the clock of the
    /// primary may show.
    pub(crate) fn expiry_of(&self, primary: PrimaryIndex, deadline: Duration) -> Timestamp {
        self.bounds_of(primary).latest.plus_ms(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX))
    }
}

impl Engine {
    /// Creates an agent with these rules, as its settings enforce them.
    #[must_use]
    pub fn new(mut settings: EngineSettings, rules: RuleSet) -> Self {
        let saved = settings.saved_agents.take();
        let settings = Arc::new(settings);
        let EngineSettings { node, epoch, agents_expected, counters_max, sketch_bytes, partitions, .. } = &*settings;
        let published = settings.publishes.then_some(*partitions);
        let reports = Arc::new(Reports::default());
        let counters = Arc::new(AgentTable::with_sketch(*counters_max, *sketch_bytes));
        let bus = Arc::new(BusLink::new(*partitions));
        Self {
            ids: CallIds::new(node, *epoch, &settings.digest_key, published),
            rules: EngineRules::new(&settings, rules, reports.clone()),
            fleet: Fleet::new(node.clone(), *epoch, *agents_expected, saved),
            store: StoreLink::new(settings.clone(), reports.clone(), counters.clone(), bus.clone()),
            reports,
            counters,
            bus,
            settings,
        }
    }

    /// Returns the identity and caps of the agent.
    #[must_use]
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    /// Returns the counts of this engine.
    #[must_use]
    pub fn metrics(&self) -> &EngineMetrics {
        self.reports.metrics()
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
        self.rules.accept(now, self.store_time(now).nearest_to(now), self.settings.enforced(rules))?;
        // Calls may wait longer by the new rules.
        self.store.forget_deadlines();
        // The store orders the rules of all agents.
        self.reports.wake_maintenance();
        Ok(())
    }

    /// Returns the time at which rules were accepted last; time 0 before there are any.
    #[must_use]
    pub fn rules_accepted_at(&self) -> Timestamp {
        self.rules.accepted_at()
    }

    /// Records that rules were refused, and the reason. The set in force stays.
    pub fn reject_rules(&self, reason: String) {
        self.rules.reject(reason);
    }

    /// Returns the reason why the last rules were refused, unless rules have been accepted since.
    #[must_use]
    pub fn rejection(&self) -> Option<String> {
        self.rules.rejection()
    }

    /// Returns true if the agent follows published rules and can read them from nowhere.
    #[must_use]
    pub fn is_cut_off_from_rules(&self) -> bool {
        self.rules.are_unreachable()
    }

    /// Switches the emergency on with this quota for each caller, or off. The other agents learn it from the heartbeats.
    pub fn switch_emergency(&self, now: Timestamp, quota: Option<Quota>) {
        let known = self.emergency();
        let after = known.map_or(Timestamp::default(), |known| known.changed_at.plus_ms(1));
        self.learn_emergency(now, EmergencySwitch { quota, changed_at: now.max(after) });
    }

    /// Applies a change of the switch that another agent told, or that was saved, if it is newer than the known one.
    pub fn learn_emergency(&self, now: Timestamp, switch: EmergencySwitch) {
        self.rules.learn_emergency(now, switch);
    }

    /// Returns the latest change of the switch, if there was one.
    #[must_use]
    pub fn emergency(&self) -> Option<EmergencySwitch> {
        self.rules.emergency()
    }

    /// Returns the interval in which the times of all primaries of the store lie.
    #[must_use]
    #[inline]
    pub fn store_time(&self, now: Timestamp) -> TimeBounds {
        self.store.time_of_all(now)
    }

    /// Returns true if these rules are those in force, as they were accepted.
    #[must_use]
    pub fn enforces(&self, rules: &RuleSet) -> bool {
        self.rules.are_in_force(rules)
    }

    /// Returns the interval in which the time of a primary lies.
    #[must_use]
    pub fn primary_time(&self, primary: PrimaryIndex, now: Timestamp) -> TimeBounds {
        self.store.time(primary, now)
    }

    /// Returns the primary that holds the counters of a slot.
    #[must_use]
    pub fn primary_of(&self, slot: HashSlotId) -> PrimaryIndex {
        self.store.primary_of(slot)
    }

    /// Takes the primary of each slot of the store, in their order; none for a slot that nobody serves. The facts about a counter
    /// end when its slot moves.
    pub fn follow_slots(&self, owners: &[Option<PrimaryIndex>]) {
        self.store.follow_owners(owners);
        self.reports.wake_maintenance();
    }

    /// Records the time of a primary in an answer, which was sent for and received by this agent's clock. Each answer shows
    /// a step of its clock, whatever it is about.
    pub fn note_primary_time(&self, primary: PrimaryIndex, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        self.store.note_time(primary, sent, received, store_now);
    }

    /// Records the time of a store with one primary, as [`note_primary_time`](Engine::note_primary_time).
    pub fn note_store_time(&self, sent: Timestamp, received: Timestamp, store_now: Timestamp) {
        self.note_primary_time(PrimaryIndex::ONLY, sent, received, store_now);
    }

    /// Returns true while the breaker of a primary is open: calls on its counters are decided without the store, or at least
    /// those that wait least for it.
    #[must_use]
    #[inline]
    pub fn is_degraded(&self) -> bool {
        self.store.is_degraded()
    }

    /// Returns true if the store has to be probed: the breaker is open, or unsynced units wait for the store.
    #[must_use]
    #[inline]
    pub fn needs_store(&self) -> bool {
        self.store.is_needed()
    }

    /// Returns true if units were admitted without the store and are not charged yet.
    #[must_use]
    #[inline]
    pub fn has_unsynced(&self) -> bool {
        self.store.has_unsynced()
    }

    /// Returns true if the store has answered a ping in this life, or the counts are in the engine's own table.
    #[must_use]
    pub fn has_reached_store(&self) -> bool {
        self.store.is_reached()
    }

    /// Follows the answer to an announcement. Rules that become the newest of the fleet change the policies of counters, so
    /// that a denial of before may not hold any more.
    pub(crate) fn note_registry(&self, set: &PresenceSet) {
        let (has_newer, notice) = self.fleet.registry().follow(set);
        if has_newer {
            self.counters.end_all_denials();
        }
        if let Some(notice) = notice {
            self.reports.notify(notice);
        }
    }

    /// Returns true if other agents that share the store digest callers by another key.
    #[must_use]
    pub fn do_digest_keys_differ(&self) -> bool {
        self.fleet.registry().do_digest_keys_differ()
    }

    /// Sweeps a part of the table, and follows the fleet. The maintenance calls it a few times a second.
    pub(crate) fn keep_house(&self, now: Timestamp) {
        self.rules.end_exceptions(self.store_time(now).nearest_to(now));
        let has_room_again = self.counters.sweep(now, self.store.time_of_all(now));
        self.fleet.tick(now).into_iter().for_each(|notice| self.reports.notify(notice));
        if has_room_again {
            self.reports.notify(Notice::TableHasRoom);
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

    #[cfg(test)]
    pub(crate) fn lose_store(&self) {
        let now = Timestamp::default();
        self.store.unanswered(PrimaryIndex::ONLY, now, Duration::ZERO, now, crate::StoreError::Unreachable);
    }
}
