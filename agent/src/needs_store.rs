//! Rules that an agent has no servers for: those that need a store beside a bus alone, those whose limits one server must hold,
//! and those that need signals beside a store alone.
//!
//! The first are refused, because each agent would limit them on its own, and the second, because a step charges a counter by the
//! floor of its rule, which has another slot. The third follow their `on_failure` at all
//! times, of which the log warns. Rules under `consistency: eventual` need no store, and all others need no signals.

use std::sync::Arc;

use tollgate_core::rules::{Consistency, Rule, RuleSet, Scope};
use tollgate_engine::{ChargeableRules, EngineSettings};

/// Rule that needs another store than the agent has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NeedsStore {
    /// The agent has a Kafka and no Redis.
    #[error(
        "rule `{0}` needs the Redis that all agents share, because with Kafka alone each agent would limit it on its own: name it with --redis URL, or write `consistency: eventual`"
    )]
    Shared(Arc<str>),
    /// The rule is global, and its counters may lie on several servers.
    #[error(
        "rule `{0}` is `scope: global` and needs one Redis that holds all counters of the region, because its floor and its counters have different slots: name such a Redis without --redis-slots multi, or write `scope: regional`"
    )]
    OneServer(Arc<str>),
}

impl NeedsStore {
    /// Returns the error of the first rule that an agent with these settings cannot enforce.
    pub(crate) fn of(settings: &EngineSettings, rules: &RuleSet) -> Option<Self> {
        let is_global =
            |rule: &&Arc<Rule>| settings.charges == ChargeableRules::Regional && rule.scope == Scope::Global;
        let one_server = || rules.rules.iter().find(is_global).map(|rule| Self::OneServer(rule.name.clone()));
        settings.unenforceable(rules).cloned().map(Self::Shared).or_else(one_server)
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

#[cfg(test)]
mod tests {
    use ChargeableRules::{All, Regional};
    use tollgate_core::clock::Timestamp;

    use super::*;

    /// J2: a global rule is refused where its floor and its counters may lie on several servers.
    #[test]
    fn a_global_rule_needs_one_server() {
        let mut rule = Rule::per("shared", &["api_key"], "100/min".parse().expect("a quota")).strict();
        for (scope, charges, is_refused) in
            [(Scope::Regional, Regional, false), (Scope::Global, All, false), (Scope::Global, Regional, true)]
        {
            rule.scope = scope;
            let settings = EngineSettings { charges, ..EngineSettings::new("a", Timestamp::from_ms(1)) };
            let error = NeedsStore::of(&settings, &RuleSet::new(1, [rule.clone()]));
            assert_eq!(error, is_refused.then(|| NeedsStore::OneServer("shared".into())));
            let text = error.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(text.contains("rule `shared`") && text.contains("--redis-slots multi"), is_refused, "{text}");
        }
    }
}
