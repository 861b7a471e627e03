//! Rules that an agent cannot enforce, or not as they are meant: those that need a store beside a bus alone, those whose
//! counters one server must hold, those whose quota is shared by regions that do not include the agent's, and those that need
//! signals beside a store alone.
//!
//! The first three are refused, because agents would limit them on their own. The last follow their `on_failure` at all times, of
//! which the log warns. Rules under `consistency: eventual` need no store, and all others need no signals.

use std::sync::Arc;

use tollgate_core::regions::Region;
use tollgate_core::rules::{Consistency, Rule, RuleSet, Scope, show_units};
use tollgate_engine::EngineSettings;

/// Rule that an agent cannot enforce.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unenforceable {
    /// The rule needs a store, and the agent has a Kafka and no Redis.
    #[error(
        "rule `{0}` needs the Redis that all agents share, because with Kafka alone each agent would limit it on its own: name it with --redis URL, or write `consistency: eventual`"
    )]
    NeedsStore(Arc<str>),
    /// The rule is global, and its counters may lie on several servers.
    #[error(
        "rule `{0}` is `scope: global` and needs one Redis that holds all counters of the region, because its floor and its counters have different slots: name such a Redis without --redis-slots multi, or write `scope: regional`"
    )]
    NeedsOneServer(Arc<str>),
    /// The rule has a quota over all regions, and the agent's region has no part of it.
    #[error(
        "rule `{rule}` has `scope: global`, and the region `{region}` of this agent is not under `regions`: name one of {known} with --region NAME, or write `{region}` under `regions`"
    )]
    UnknownRegion {
        /// Name of the rule.
        rule: Arc<str>,
        /// Region of the agent.
        region: Region,
        /// Regions that share the quota.
        known: String,
    },
}

impl Unenforceable {
    /// Returns the error of the first rule that an agent with these settings cannot enforce.
    pub(crate) fn of(settings: &EngineSettings, rules: &RuleSet) -> Option<Self> {
        let needs_store = settings.unenforceable(rules).cloned().map(Self::NeedsStore);
        needs_store.or_else(|| {
            let is_known = rules.regions.iter().any(|part| part.region == settings.region);
            let global = rules.rules.iter().find(|rule| rule.scope == Scope::Global)?;
            if !settings.store.has_one_step() {
                return Some(Self::NeedsOneServer(global.name.clone()));
            }
            if is_known {
                return None;
            }
            let (rule, region) = (global.name.clone(), settings.region.clone());
            Some(Self::UnknownRegion { rule, region, known: names(rules) })
        })
    }
}

/// Warns of rules that only signals decide, if there is a store and no bus.
pub(crate) fn warn_without_signals(settings: &EngineSettings, rules: &RuleSet) {
    let is_eventual = |rule: &&Arc<Rule>| rule.all_policies().any(|policy| policy.consistency == Consistency::Eventual);
    let has_signals = settings.publishes || settings.owns_table;
    if let Some(rule) = rules.rules.iter().find(is_eventual).filter(|_| !has_signals) {
        let (node, rule) = (&settings.node, &rule.name);
        tracing::warn!(%node, "rule `{rule}` is `consistency: eventual`, and without Kafka there are no signals: its `on_failure` decides every call; name the Kafka of the fleet with --kafka BROKERS, or write `consistency: bounded`");
    }
}

/// Logs the part of each global quota that the agent's region has by itself.
pub(crate) fn log_floors(settings: &EngineSettings, rules: &RuleSet) {
    let (node, region) = (&settings.node, &settings.region);
    let Some(part) = rules.regions.iter().find(|part| part.region == *region) else {
        if !rules.regions.is_empty() {
            let known = names(rules);
            tracing::warn!(%node, "the region `{region}` of this agent is not under `regions`, which has {known}; no rule has `scope: global`, so it limits by all rules");
        }
        return;
    };
    for rule in rules.rules.iter().filter(|rule| rule.scope == Scope::Global) {
        let Some(policy) = &rule.policy else { continue };
        let floor = show_units(part.units_of(policy.units_over_regions()), policy.quota.unit());
        let name = &rule.name;
        tracing::info!(%node, %region, "without a ledger this region admits at most {floor} per window of rule `{name}`");
    }
}

fn names(rules: &RuleSet) -> String {
    rules.regions.iter().map(|part| &*part.region).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::regions::RegionFloorRatio;

    use tollgate_engine::StoreShape;

    use super::*;

    /// J3: a region without a part of the quota would admit units that others hold.
    #[test]
    fn a_global_rule_is_enforced_in_its_regions_only() {
        let set = |scope, regions: &[&str]| {
            let mut rule = Rule::per("all", &["ip"], "9/s".parse().unwrap()).strict();
            rule.scope = scope;
            let mut set = RuleSet::new(1, [rule]);
            let part = |name: &&str| RegionFloorRatio { region: (*name).into(), floor_ppm: 0 };
            set.regions = regions.iter().map(part).collect();
            set
        };
        let mut settings = EngineSettings::new("a", Timestamp::from_ms(1));
        settings.region = "eu".into();
        for (scope, regions, known) in [
            (Scope::Global, &["us", "eu"][..], None),
            (Scope::Global, &["us", "ap"], Some("us, ap")),
            (Scope::Global, &["EU"], Some("EU")),
            (Scope::Regional, &["us"], None),
            (Scope::Regional, &[], None),
        ] {
            let error = |known: &str| Unenforceable::UnknownRegion {
                rule: "all".into(),
                region: "eu".into(),
                known: known.to_owned(),
            };
            assert_eq!(Unenforceable::of(&settings, &set(scope, regions)), known.map(error), "{scope:?} {regions:?}");
        }
    }

    /// J2: a global rule is refused where its floor and its counters may lie on several servers.
    #[test]
    fn a_global_rule_needs_one_server() {
        let mut rule = Rule::per("shared", &["api_key"], "100/min".parse().expect("a quota")).strict();
        for (scope, store, is_refused) in [
            (Scope::Regional, StoreShape::Slots, false),
            (Scope::Global, StoreShape::Server, false),
            (Scope::Global, StoreShape::Slots, true),
            (Scope::Global, StoreShape::Primaries, true),
        ] {
            rule.scope = scope;
            let settings = EngineSettings { store, ..EngineSettings::new("a", Timestamp::from_ms(1)) };
            let mut set = RuleSet::new(1, [rule.clone()]);
            set.regions = vec![RegionFloorRatio { region: settings.region.clone(), floor_ppm: 0 }];
            let error = Unenforceable::of(&settings, &set);
            assert_eq!(error, is_refused.then(|| Unenforceable::NeedsOneServer("shared".into())));
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(text.contains("rule `shared`") && text.contains("--redis-slots multi"), is_refused, "{text}");
        }
    }
}
