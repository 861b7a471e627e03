//! Why a call is limited as it is, as JSON for those who ask an agent or look into a file. Secret values are cut.

use serde_json::{Map, Value, json};
use tollgate_common::algorithm::Algorithm;
use tollgate_common::call::Call;
use tollgate_common::counter::DigestKey;
use tollgate_common::rule::{Explained, Fate, Matches, Origin, Pattern, RuleSet, Standing, Terms, words};

/// What is known of a call, what the lists say of it, and of each rule whether it applies, on which terms and from where, or
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
    let (list, entry) = match told.standing {
        Standing::Usual => (None, None),
        Standing::Allowed(place) => (Some("allow"), Some(&set.lists.allow[place])),
        Standing::Denied(place) => (Some("deny"), Some(&set.lists.deny[place])),
    };
    json!({
        "generation": set.generation,
        "rules_from": *set.origin,
        "descriptors": known.collect::<Vec<_>>(),
        "list": list,
        "list_entry": entry.map(|entry| words::matches(&shown.matches(entry))),
        "rules": told.rules.iter().map(|explained| shown.rule(explained)).collect::<Vec<_>>(),
    })
}

/// Terms, field by field; those of a rule without limit say so.
#[must_use]
pub fn terms_json(terms: Option<&Terms>) -> Map<String, Value> {
    let (name, estimate, sub_windows) = match terms.map(|terms| terms.algorithm) {
        Some(Algorithm::SlidingWindow(estimate)) => {
            ("sliding_window", Some(words::estimated(estimate)), terms.map(|terms| terms.window.parts()))
        }
        Some(other) => (words::name_of(other), None, None),
        None => ("unlimited", None, None),
    };
    let fields = json!({
        "quota": terms.map(|terms| terms.quota.to_string()),
        "units": terms.map(|terms| terms.quota.units()),
        "window_ms": terms.map(|terms| terms.quota.width_ms()),
        "algorithm": name,
        "burst": terms.filter(|terms| terms.burst > 0).map(|terms| terms.burst),
        "sub_windows": sub_windows,
        "estimate": estimate,
        "consistency": terms.map(|terms| words::consistency(terms.consistency)),
        "on_failure": terms.map(|terms| words::on_failure(terms.on_failure)),
        "deadline_ms": terms.map(|terms| u64::try_from(terms.deadline.as_millis()).unwrap_or(u64::MAX)),
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
        if let Fate::Applies { terms, origin, cost } = &explained.fate {
            told["allows"] = words::allowed(rule, terms.as_ref()).into();
            told["terms"] = terms_json(terms.as_ref()).into();
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
            Fate::Applies { terms: None, origin, .. } => words::origin(*origin),
            Fate::Applies { terms: Some(terms), origin, cost } => {
                let burst = words::burst(terms).map_or_else(String::new, |burst| format!(", burst {burst}"));
                let from = words::origin(*origin);
                format!("{from}; {}{burst}; costs {cost}", words::algorithm(terms))
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
        let set = RuleSet::from_yaml("rules.yaml", rules, 1).expect("rules");
        for call in [Call::new(), Call::new().with("api_key", "k"), Call::new().with("api_key", "sk_live_five")] {
            let told = explain(&set, &DigestKey::default(), &call).to_string();
            assert!(!told.contains("sk_live_"), "{told}");
            assert!(told.contains("sk_shown_*") && told.contains("/search/everything"), "{told}");
        }
        let denied = explain(&set, &DigestKey::default(), &Call::new().with("api_key", "sk_live_five"));
        assert!(denied["list_entry"].as_str().is_some_and(|entry| entry.starts_with("api_key=sk_l…")), "{denied}");
    }
}
