//! Why a call is limited as it is, as JSON for those who ask an agent or look into a file. Secret values are cut.

use serde_json::{Map, Value, json};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::{Explained, Fate, LimitPolicy, ListMatch, Matches, Origin, Pattern, RuleSet, display};

/// What is known of a call, what the lists say of it, and of each rule whether it applies, on which policy and from where, or
/// why not. Nobody is asked and nothing is counted.
#[must_use]
pub fn explain(set: &RuleSet, key: &DigestKey, call: &Call<'_>) -> Value {
    let told = set.explain(call);
    let shown = Shown { set, key };
    let known = told.descriptors.iter().map(|fact| {
        // What follows from the rules file is no secret.
        let value = if fact.derived { fact.value.to_owned() } else { shown.value(fact.name, fact.value) };
        json!({ "name": fact.name, "value": value, "verified": fact.verified, "derived": fact.derived })
    });
    let (list, entry) = match told.list_match {
        ListMatch::Unlisted => (None, None),
        ListMatch::Allowed(place) => (Some("allow"), Some(&set.lists.allow[place])),
        ListMatch::Denied(place) => (Some("deny"), Some(&set.lists.deny[place])),
    };
    json!({
        "generation": set.generation,
        "rules_from": *set.origin,
        "descriptors": known.collect::<Vec<_>>(),
        "list": list,
        "list_entry": entry.map(|entry| display::matches(&shown.matches(entry))),
        "rules": told.rules.iter().map(|explained| shown.rule(explained)).collect::<Vec<_>>(),
    })
}

/// The limit policy, field by field; those of a rule without limit say so.
#[must_use]
pub fn terms_json(policy: Option<&LimitPolicy>) -> Map<String, Value> {
    let (name, estimate, sub_windows) = match policy.map(|policy| policy.algorithm) {
        Some(Algorithm::SlidingWindow(estimate)) => {
            ("sliding_window", Some(display::estimated(estimate)), policy.map(|policy| policy.window.parts()))
        }
        Some(other) => (display::name_of(other), None, None),
        None => ("unlimited", None, None),
    };
    let fields = json!({
        "quota": policy.map(|policy| policy.quota.to_string()),
        "units": policy.map(|policy| policy.quota.units()),
        "window_ms": policy.map(|policy| policy.quota.width_ms()),
        "algorithm": name,
        "burst": policy.filter(|policy| policy.burst > 0).map(|policy| policy.burst),
        "sub_windows": sub_windows,
        "estimate": estimate,
        "consistency": policy.map(|policy| display::consistency(policy.consistency)),
        "on_failure": policy.map(|policy| display::on_failure(policy.on_failure)),
        "deadline_ms": policy.map(|policy| u64::try_from(policy.deadline.as_millis()).unwrap_or(u64::MAX)),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

struct Shown<'a> {
    set: &'a RuleSet,
    key: &'a DigestKey,
}

impl Shown<'_> {
    fn value(&self, name: &str, value: &str) -> String {
        self.key.shown(value, self.set.is_secret(name))
    }

    fn matches(&self, matches: &Matches) -> Matches {
        matches.iter().map(|(name, pattern)| (name.clone(), self.pattern(name, pattern))).collect()
    }

    /// The pattern with whole values cut, where they are secret; it is for people, and matches nothing.
    fn pattern(&self, name: &str, pattern: &Pattern) -> Pattern {
        let all = |patterns: &[Pattern]| -> Vec<Pattern> {
            patterns.iter().map(|pattern| self.pattern(name, pattern)).collect()
        };
        match pattern {
            Pattern::Exact(text) => Pattern::Exact(self.value(name, text).into()),
            Pattern::Glob(text, _) if !text.contains(['*', '?']) => Pattern::Exact(self.value(name, text).into()),
            Pattern::Any(patterns) => Pattern::Any(all(patterns.as_slice()).into()),
            Pattern::Not(patterns) => Pattern::Not(all(patterns.as_slice()).into()),
            Pattern::All(patterns) => Pattern::All(all(patterns)),
            other => other.clone(),
        }
    }

    fn rule(&self, explained: &Explained<'_>) -> Value {
        let rule = explained.rule;
        let mut told = json!({ "rule": *rule.name, "shadow": rule.shadow, "deny": rule.deny });
        told["applies"] = matches!(explained.fate, Fate::Applies { .. }).into();
        told["why"] = self.why(explained).into();
        if let Fate::Applies { policy, origin, cost } = &explained.fate {
            told["allows"] = display::allowed(rule, policy.as_ref()).into();
            told["terms"] = terms_json(policy.as_ref()).into();
            told["origin"] = match origin {
                Origin::Rule => json!({ "kind": "rule" }),
                Origin::Key => json!({ "kind": "key" }),
                Origin::Tier(name) => json!({ "kind": "tier", "name": name }),
                Origin::Descriptor(name) => json!({ "kind": "descriptor", "name": name }),
            };
            told["cost"] = (*cost).into();
        }
        told
    }

    fn why(&self, explained: &Explained<'_>) -> String {
        match &explained.fate {
            Fate::Applies { .. } if explained.rule.deny => "it denies what it matches".to_owned(),
            Fate::Applies { policy: None, origin, .. } => display::origin(*origin),
            Fate::Applies { policy: Some(policy), origin, cost } => {
                let burst = display::burst(policy).map_or_else(String::new, |burst| format!(", burst {burst}"));
                let from = display::origin(*origin);
                format!("{from}; {}{burst}; costs {cost}", display::algorithm(policy))
            }
            Fate::NotAsked => "the call leaves it aside".to_owned(),
            Fate::Mismatch { descriptor, pattern, value: None } => {
                format!("there is no {descriptor}, which must be {}", self.pattern(descriptor, pattern))
            }
            Fate::Mismatch { descriptor, pattern, value: Some(value) } => {
                let (value, pattern) = (self.value(descriptor, value), self.pattern(descriptor, pattern));
                format!("{descriptor} is {value}, and must be {pattern}")
            }
            Fate::Missing { descriptor } => format!("there is no {descriptor} to count by"),
            Fate::LessSpecific { than } => format!("{than}, of the same group, is more specific or stands above"),
            Fate::Replaced { by } => format!("{by} replaces it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever may ask an agent once read other callers' keys in the patterns that his own does not match.
    #[test]
    fn whole_values_in_patterns_are_cut_where_they_are_secret() {
        let rules = "
rules:
  - { name: one, per: [api_key], quota: 1/s, match: { api_key: sk_live_one } }
  - { name: any, per: [api_key], quota: 1/s, match: { api_key: [sk_live_two, sk_shown_*] } }
  - { name: both, per: [api_key], quota: 1/s, match: { api_key: { prefix: sk_shown_, not: [sk_live_three] } } }
  - { name: glob, per: [api_key], quota: 1/s, match: { api_key: { glob: sk_live_four } } }
  - { name: path, per: [api_key], quota: 1/s, match: { endpoint: /search/everything } }
lists: { deny: [{ api_key: sk_live_five }] }
";
        let set = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("rules");
        for call in [Call::new(), Call::new().with("api_key", "k"), Call::new().with("api_key", "sk_live_five")] {
            let told = explain(&set, &DigestKey::default(), &call).to_string();
            assert!(!told.contains("sk_live_"), "{told}");
            assert!(told.contains("sk_shown_*") && told.contains("/search/everything"), "{told}");
        }
        let denied = explain(&set, &DigestKey::default(), &Call::new().with("api_key", "sk_live_five"));
        assert!(denied["list_entry"].as_str().is_some_and(|entry| entry.starts_with("api_key=sk_l…")), "{denied}");
    }
}
