//! Exceptions and list entries with an end, in words for people who may not see secrets.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::DigestKey;
use tollgate_core::one_line::one_line;
use tollgate_core::rules::{Matches, Pattern, Rule, RuleSet, TIER, TimedCallers, TimedEnd, TimedEntry, TimedException};

use crate::hint::cut;
use crate::settings::{QUOTA_COLUMN, Shown};

/// An exception or a list entry with an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExceptionText {
    /// Rule or list.
    pub target: ExceptionTarget,
    /// Callers, as labels of counters show them.
    pub callers: String,
    /// Quota until the end; none for a list entry.
    pub quota: Option<String>,
    /// End.
    pub end: TimedEnd,
}

/// Rule or list that has an exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExceptionTarget {
    /// Rule of this name.
    Rule(Arc<str>),
    /// `lists.allow`.
    Allow,
    /// `lists.deny`.
    Deny,
}

impl ExceptionText {
    /// Returns the exceptions and list entries that are in force at an instant, the next one to end first.
    #[must_use]
    pub fn in_force_at(now: Timestamp, set: &RuleSet, key: &DigestKey) -> Vec<Self> {
        let of_rules = set.rules.iter().flat_map(|rule| Self::of_rule(now, set, rule, key));
        let entries = set.lists.timed.iter().filter(|entry| entry.end.until > now);
        let mut texts: Vec<Self> = of_rules.chain(entries.map(|entry| Self::of_entry(set, entry, key))).collect();
        texts.sort_by_key(|text| text.end.until);
        texts
    }

    fn of_rule<'a>(
        now: Timestamp,
        set: &'a RuleSet,
        rule: &'a Rule,
        key: &'a DigestKey,
    ) -> impl Iterator<Item = Self> + 'a {
        let in_force = move |exception: &&TimedException| exception.end.until > now;
        rule.timed.iter().enumerate().filter(move |(_, exception)| in_force(exception)).filter_map(
            move |(at, exception)| {
                // The last one stands in the place of those before.
                let mut later = rule.timed[at + 1..].iter().filter(in_force);
                let is_replaced = later.any(|later| later.callers == exception.callers);
                (!is_replaced).then(|| Self {
                    target: ExceptionTarget::Rule(rule.name.clone()),
                    callers: callers(set, rule, &exception.callers, key),
                    quota: Some(Shown::of_policy(rule, exception.policy.as_ref()).cell(QUOTA_COLUMN)),
                    end: exception.end.clone(),
                })
            },
        )
    }

    fn of_entry(set: &RuleSet, TimedEntry { denies, matches, end }: &TimedEntry, key: &DigestKey) -> Self {
        let target = if *denies { ExceptionTarget::Deny } else { ExceptionTarget::Allow };
        Self { target, callers: entry_callers(set, matches, key), quota: None, end: end.clone() }
    }
}

fn callers(set: &RuleSet, rule: &Rule, callers: &TimedCallers, key: &DigestKey) -> String {
    match callers {
        TimedCallers::Key(value) => {
            let name = rule.per.first().map_or("", |name| &**name);
            format!("{name}={}", key.shown(value, set.is_secret(name)))
        }
        TimedCallers::Tier(tier) => format!("{TIER}={tier}"),
        TimedCallers::All => "(all callers)".to_owned(),
    }
}

fn entry_callers(set: &RuleSet, matches: &Matches, key: &DigestKey) -> String {
    let condition = |(name, pattern): &(Arc<str>, Pattern)| match pattern {
        Pattern::Exact(value) => format!("{name}={}", key.shown(value, set.is_secret(name))),
        pattern if set.is_secret(name) => format!("{name}={}", cut(&pattern.to_string())),
        pattern => format!("{name}={pattern}"),
    };
    let conditions: Vec<String> = matches.iter().map(condition).collect();
    one_line(&conditions.join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use tollgate_core::messages::rules::Published;

    use super::*;

    const TEXT: &str = "
descriptors: { api_key: { header: x-api-key }, ip: { client_ip: {}, public: true } }
rules:
  - name: per-key
    per: [api_key]
    quota: 10/min
    keys: { key-of-a-customer: { quota: 20/min, until: 2026-12-01T00:00:30Z } }
    tiers: { gold: { quota: x3, until: 2026-12-01T00:00:20Z, reason: launch } }
";
    const OVERRIDES: &str = "
- { rule: per-key, key: key-of-a-customer, quota: unlimited, until: 2026-12-01T00:00:10Z, reason: fair }
- { deny: { api_key: leaked-key }, until: 2026-12-01T00:00:40Z, reason: leaked }
- { allow: { ip: 10.0.0.* }, until: 2026-12-01T00:00:40Z }
- { deny: { api_key: another-key-* }, until: 2026-12-01T00:00:50Z }
";

    /// G2, G5, G9: of an override and an exception of the file, the one that stands in front is shown.
    #[test]
    fn exceptions_in_force_have_their_quota_and_end_but_no_secret() {
        let published = Published { overrides: OVERRIDES.to_owned(), ..Published::new("rules.yaml", TEXT) };
        let set = crate::read_published(&published, 7).unwrap_or_else(|problems| panic!("{problems}"));
        let start = crate::display::parse_utc("2026-12-01T00:00:00Z").expect("a time");
        let shown = |after_s: u64| -> Vec<String> {
            let texts = ExceptionText::in_force_at(start.plus_ms(after_s * 1_000), &set, &DigestKey::default());
            let line = |text: ExceptionText| {
                let ExceptionText { target, callers, quota, end } = text;
                let quota = quota.unwrap_or_default();
                format!("{target:?} {callers} {quota} {} {}", end.until.ms_since(start) / 1_000, end.reason)
            };
            texts.into_iter().map(line).collect()
        };
        let [of_file, gold, leaked, allowed, prefix] = [
            "Rule(\"per-key\") api_key=key-…048f9be2 20/min 30 ",
            "Rule(\"per-key\") tier=gold 30/min 20 launch",
            "Deny api_key=leak…f5dcad3a  40 leaked",
            "Allow ip=10.0.0.*  40 ",
            "Deny api_key=another-…  50 ",
        ];
        let in_front = "Rule(\"per-key\") api_key=key-…048f9be2 unlimited 10 fair";
        assert_eq!(shown(0), [in_front, gold, leaked, allowed, prefix]);
        assert_eq!(shown(10), [gold, of_file, leaked, allowed, prefix]);
        assert_eq!(shown(40), [prefix]);
        assert_eq!(shown(50), [""; 0]);
    }
}
