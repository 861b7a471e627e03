//! Rules of one agent: those in force, the reason why newer ones were refused, and the emergency switch in place of them.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::Guard;
use parking_lot::Mutex;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::{DENY_LIST, EMERGENCY};
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::AnnouncedRules;
use tollgate_core::name::Name;
use tollgate_core::rules::{Generation, RuleSet};

use crate::engine_settings::EngineSettings;
use crate::report::{Notice, Reports, RuleCounts};
use crate::rules::active_rules::{ActiveRules, RulesInForce};
use crate::rules::emergency_limit::EmergencyLimit;

/// Maximum time by which a change of the switch may lie ahead of this agent's clock, in ms. A change from the far future could
/// not be replaced.
const AHEAD_MS_MAX: u64 = 3_600_000;

/// Rules of one agent, and what stands in their place.
pub(crate) struct EngineRules {
    reports: Arc<Reports>,
    in_force: RulesInForce,
    /// Latest change of the emergency switch. A thread holds the lock while it puts rules in force.
    emergency: Mutex<LearnedEmergency>,
    rejection: Mutex<Option<String>>,
    /// True if no source of published rules can be read.
    is_unreachable: AtomicBool,
    /// Time at which the rules in force were accepted, in ms; 0 before there are any.
    accepted_ms: AtomicU64,
    unlimited: Arc<RuleCounts>,
    listed: Arc<RuleCounts>,
    in_emergency: Arc<RuleCounts>,
    deny_list: Name,
}

#[derive(Default)]
struct LearnedEmergency {
    newest: Option<EmergencySwitch>,
    /// True if a newer change is refused.
    is_refused: bool,
}

impl EngineRules {
    /// Creates the rules of an agent that starts with this set, as its settings enforce it.
    pub(crate) fn new(settings: &EngineSettings, rules: RuleSet, reports: Arc<Reports>) -> Self {
        let rules = settings.enforced(rules);
        let accepted_ms = if rules.generation == 0 { 0 } else { settings.epoch.as_ms() };
        let metrics = reports.metrics();
        Self {
            in_force: RulesInForce::new(ActiveRules::new(rules, settings.epoch, metrics)),
            emergency: Mutex::default(),
            rejection: Mutex::default(),
            is_unreachable: AtomicBool::default(),
            accepted_ms: AtomicU64::new(accepted_ms),
            unlimited: metrics.of_rule(&"".into()),
            listed: metrics.of_rule(&DENY_LIST.into()),
            in_emergency: metrics.of_rule(&EMERGENCY.into()),
            deny_list: DENY_LIST.into(),
            reports,
        }
    }

    #[inline]
    pub(crate) fn in_force(&self) -> &RulesInForce {
        &self.in_force
    }

    pub(crate) fn load(&self) -> Guard<Arc<ActiveRules>> {
        self.in_force.load()
    }

    /// Returns the counts of calls to which no rule applies.
    pub(crate) fn unlimited(&self) -> &Arc<RuleCounts> {
        &self.unlimited
    }

    /// Returns the name of the deny list, and the counts of the calls that it denies.
    pub(crate) fn deny_list(&self) -> (&Name, &Arc<RuleCounts>) {
        (&self.deny_list, &self.listed)
    }

    /// Puts rules in force that the settings enforce, as they are at an instant of store time.
    ///
    /// # Errors
    /// If a newer set of the same numbering is in force, or a different one of the same generation; returns the generation in force.
    pub(crate) fn accept(&self, now: Timestamp, at: Timestamp, rules: RuleSet) -> Result<(), Generation> {
        let _switching = self.emergency.lock();
        let active = self.in_force.load();
        if !rules.may_replace(active.written()) {
            return Err(active.set.generation);
        }
        let rules = rules.lowered_after(active.written(), at);
        self.in_force.store(ActiveRules::new(rules, at, self.reports.metrics()).after(&active));
        self.accepted_ms.store(now.as_ms(), Ordering::Relaxed);
        *self.rejection.lock() = None;
        Ok(())
    }

    /// Leaves out the exceptions and list entries that have ended at an instant of store time. An operator is told.
    pub(crate) fn end_exceptions(&self, at: Timestamp) {
        let _switching = self.emergency.lock();
        if let Some(rules) = self.in_force.load().after_an_end(at, self.reports.metrics()) {
            self.in_force.store(rules);
            self.reports.notify(Notice::ExceptionsEnded);
        }
    }

    /// Returns true if these rules are those in force, as they were accepted.
    pub(crate) fn are_in_force(&self, rules: &RuleSet) -> bool {
        let active = self.in_force.load();
        active.written().generation == rules.generation && rules.is_equivalent(active.written())
    }

    pub(crate) fn accepted_at(&self) -> Timestamp {
        Timestamp::from_ms(self.accepted_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn reject(&self, reason: String) {
        self.reports.metrics().rules_rejected.add(1);
        *self.rejection.lock() = Some(reason);
    }

    pub(crate) fn rejection(&self) -> Option<String> {
        self.rejection.lock().clone()
    }

    /// Records whether published rules can be read. An operator is told of each change.
    pub(crate) fn note_source(&self, is_reachable: bool) {
        if self.is_unreachable.swap(!is_reachable, Ordering::Relaxed) == is_reachable {
            self.reports.notify(if is_reachable { Notice::RulesReachable } else { Notice::RulesUnreachable });
        }
    }

    pub(crate) fn are_unreachable(&self) -> bool {
        self.is_unreachable.load(Ordering::Relaxed)
    }

    /// Returns the rules in force as they are announced in the store, if there are any.
    pub(crate) fn announced(&self) -> Option<AnnouncedRules> {
        let active = self.in_force.load();
        let (numbering, generation, order) = (active.set.numbering, active.set.generation, active.order);
        (generation > 0).then_some(AnnouncedRules { numbering, generation, order, rank: 0 })
    }

    /// Returns the latest change of the emergency switch, if there was one.
    pub(crate) fn emergency(&self) -> Option<EmergencySwitch> {
        self.emergency.lock().newest
    }

    /// Applies a change of the emergency switch, if it is newer than the known one.
    pub(crate) fn learn_emergency(&self, now: Timestamp, switch: EmergencySwitch) {
        let mut known = self.emergency.lock();
        if !switch.is_newer_than(known.newest.as_ref()) {
            return;
        }
        if switch.changed_at > now.plus_ms(AHEAD_MS_MAX) {
            if !mem::replace(&mut known.is_refused, true) {
                self.reports.notify(Notice::EmergencyRefused);
            }
            return;
        }
        known.is_refused = false;
        let before = known.newest.replace(switch).and_then(|known| known.quota);
        if before == switch.quota {
            return;
        }
        let limit = |quota| Arc::new(EmergencyLimit::new(quota, self.in_emergency.clone()));
        let emergency = switch.quota.map(limit);
        self.in_force.store(self.in_force.load().with_emergency(emergency));
        drop(known);
        self.reports.notify(switch.quota.map_or(Notice::EmergencyOff, Notice::EmergencyOn));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_ms(1_000_000);

    /// A host that slept has a clock that is behind. The log says so once, and the agent's own switch works.
    #[test]
    fn a_change_of_the_far_future_is_refused_with_one_line() {
        let reports = Arc::new(Reports::default());
        let rules = EngineRules::new(&EngineSettings::new("a", START), RuleSet::none_yet(), reports.clone());
        let quota = "10/s".parse().ok();
        for ahead_ms in [AHEAD_MS_MAX + 1, AHEAD_MS_MAX + 2] {
            rules.learn_emergency(START, EmergencySwitch { quota, changed_at: START.plus_ms(ahead_ms) });
        }
        assert!(rules.emergency().is_none());
        let mut told = Vec::new();
        reports.take_notices(START, |notice| told.push(notice));
        assert_eq!(told, [Notice::EmergencyRefused]);
        rules.learn_emergency(START, EmergencySwitch { quota, changed_at: START });
        assert_eq!(rules.emergency().and_then(|switch| switch.quota), quota);
    }
}
