//! JSON of an explanation, for `POST /explain` and `tollgate rules show`. An agent cuts secret values.
//!
//! The explanation itself is made by `tollgate-core`, and the policies in it are shown by the table of settings in
//! `tollgate-rules`.

#[cfg(test)]
mod property_tests;

use serde_json::{Value, json};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::{ExplainedRule, ListMatch, MatchResult, Matches, Origin, Pattern, RuleSet, Scope, TimedEnd};
use tollgate_rules::display;
use tollgate_rules::settings::{ALGORITHM_COLUMN, QUOTA_COLUMN, Shown};

/// Explains a call as JSON: its descriptors, its list entry, and for each rule the policy or the reason why it does not
/// apply. No counter is read or charged. With a key, secret values are cut and digested; who has the file of the rules sees
/// them.
#[must_use]
pub fn explain(set: &RuleSet, key: Option<&DigestKey>, call: &Call<'_>) -> Value {
    let explanation = set.explain(call);
    let writer = ExplanationWriter { set, key };
    let descriptors = explanation.descriptors.iter().map(|known| {
        // A value from the rules file is no secret.
        let value = if known.derived { known.value.to_owned() } else { writer.value(known.name, known.value) };
        json!({ "name": known.name, "value": value, "verified": known.verified, "derived": known.derived })
    });
    let (list, entry) = match explanation.list_match {
        ListMatch::Unlisted => (None, None),
        ListMatch::Allowed(place) => (Some("allow"), Some(&set.lists.allow[place])),
        ListMatch::Denied(place) => (Some("deny"), Some(&set.lists.deny[place])),
    };
    json!({
        "generation": set.generation,
        "rules_from": *set.origin,
        "descriptors": descriptors.collect::<Vec<_>>(),
        "list": list,
        "deny_status": set.deny_status.code(),
        "list_end": set.end_of_entry(explanation.list_match).map(end_json),
        "list_entry": entry.map(|entry| display::matches(&writer.matches(entry))),
        "rules": explanation.rules.iter().map(|explained| writer.rule(explained)).collect::<Vec<_>>(),
    })
}

fn end_json(end: &TimedEnd) -> Value {
    json!({ "until_ms": end.until.as_ms(), "reason": *end.reason })
}

/// Writer of values and patterns, which cuts secrets if it has a key.
struct ExplanationWriter<'a> {
    set: &'a RuleSet,
    key: Option<&'a DigestKey>,
}

impl ExplanationWriter<'_> {
    fn value(&self, name: &str, value: &str) -> String {
        self.key.map_or_else(|| value.to_owned(), |key| key.shown(value, self.set.is_secret(name)))
    }

    fn matches(&self, matches: &Matches) -> Matches {
        matches.iter().map(|(name, pattern)| (name.clone(), self.pattern(name, pattern))).collect()
    }

    /// Returns the pattern with secret values cut. It is for display only: a cut pattern matches nothing.
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

    fn rule(&self, explained: &ExplainedRule<'_>) -> Value {
        let rule = explained.rule;
        let owner = rule.owner.as_deref();
        let mut json = json!({ "rule": *rule.name, "owner": owner, "shadow": rule.shadow, "deny": rule.deny });
        json["applies"] = matches!(explained.result, MatchResult::Applies { .. }).into();
        json["why"] = self.reason(explained).into();
        if let MatchResult::Applies { policy, origin, cost } = &explained.result {
            let shown = Shown::of_policy(rule, policy.as_ref());
            json["allows"] = shown.cell(QUOTA_COLUMN).into();
            json["policy"] = shown.json.into();
            json["scope"] = Shown::of_rule(rule).json.remove("scope").into();
            json["origin"] = match origin {
                Origin::Rule => json!({ "kind": "rule" }),
                Origin::Key => json!({ "kind": "key" }),
                Origin::Tier(name) => json!({ "kind": "tier", "name": name }),
                Origin::Descriptor(name) => json!({ "kind": "descriptor", "name": name }),
            };
            json["end"] = explained.end.map(end_json).into();
            json["cost"] = (*cost).into();
        }
        json
    }

    fn reason(&self, explained: &ExplainedRule<'_>) -> String {
        match &explained.result {
            MatchResult::Applies { .. } if explained.rule.deny => {
                format!("it denies what it matches, with status {}", self.set.deny_status.code())
            }
            MatchResult::Applies { policy: None, origin, .. } => display::origin(*origin, explained.end),
            MatchResult::Applies { policy: Some(policy), origin, cost } => {
                let counting = Shown::of_policy(explained.rule, Some(policy)).cell(ALGORITHM_COLUMN);
                let takes = if policy.algorithm == Algorithm::Concurrency { "slots taken:" } else { "costs" };
                let scope = match explained.rule.scope {
                    Scope::Regional => String::new(),
                    Scope::Global => {
                        format!("; one quota over all regions, floors: {}", display::floors(self.set, policy))
                    }
                };
                format!("{}; {counting}; {takes} {cost}{scope}", display::origin(*origin, explained.end))
            }
            MatchResult::OutOfScope => "the call leaves it aside".to_owned(),
            MatchResult::Mismatch { descriptor, pattern, value: None } => {
                format!("there is no {descriptor}, which must be {}", self.pattern(descriptor, pattern))
            }
            MatchResult::Mismatch { descriptor, pattern, value: Some(value) } => {
                let (value, pattern) = (self.value(descriptor, value), self.pattern(descriptor, pattern));
                format!("{descriptor} is {value}, and must be {pattern}")
            }
            MatchResult::OtherDescriptor { descriptor } => {
                format!("the call has {descriptor}, which the rule does not name, and `exact_match` is true")
            }
            MatchResult::MissingDescriptor { descriptor } => format!("there is no {descriptor} to count by"),
            MatchResult::Wider { than } => {
                let (own, narrower) = (explained.rule.narrowness(), than.narrowness());
                let reason = if narrower.exact > own.exact {
                    "is narrower: it has more exact values"
                } else if narrower.literals > own.literals {
                    "is narrower: it has more literal characters"
                } else if narrower.conditions > own.conditions {
                    "is narrower: it has more conditions"
                } else {
                    "is as narrow and stands above"
                };
                format!("{}, of the same group, {reason}", than.name)
            }
            MatchResult::Replaced { by } => format!("{by} replaces it"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// J3: an agent shows the whole quota, the floor of its region, and those of the others.
    #[test]
    fn a_global_rule_is_explained_with_its_floors() {
        let rules = "
regions: { eu: { floor: 10% }, us: {} }
rules: [{ name: all, per: [api_key], quota: 1000/s, scope: global }, { name: own, per: [api_key], quota: 7/s }]
";
        let set = tollgate_rules::from_yaml("rules.yaml", rules, 1).expect("rules");
        let of = |set: &RuleSet| explain(set, Some(&DigestKey::default()), &Call::new().with("api_key", "k"));
        for (set, allows, floor) in
            [(set.clone(), "1000/s", None), (set.clone().in_region("us"), "1000/s, floor 10", Some(10))]
        {
            let (all, own) = (&of(&set)["rules"][0], &of(&set)["rules"][1]);
            assert_eq!((&all["scope"], &all["allows"]), (&"global".into(), &allows.into()), "{all}");
            assert_eq!((&all["policy"]["units"], &all["policy"]["floor"]), (&1_000.into(), &floor.into()), "{all}");
            let why = all["why"].as_str().unwrap_or_default();
            assert!(why.ends_with("; one quota over all regions, floors: eu 100, us 10"), "{why}");
            assert_eq!((&own["scope"], own["why"].as_str().unwrap().contains("floors")), (&"regional".into(), false));
        }
    }

    /// Patterns of rules that do not match a call once showed the keys of other callers.
    #[test]
    fn secret_values_in_patterns_are_cut() {
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
            let text = explain(&set, Some(&DigestKey::default()), &call).to_string();
            assert!(!text.contains("sk_live_"), "{text}");
            assert!(text.contains("sk_shown_*") && text.contains("/search/everything"), "{text}");
        }
        let denied = explain(&set, Some(&DigestKey::default()), &Call::new().with("api_key", "sk_live_five"));
        assert!(denied["list_entry"].as_str().is_some_and(|entry| entry.starts_with("api_key=sk_l…")), "{denied}");
    }
}
