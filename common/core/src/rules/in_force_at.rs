//! Rules at an instant: exceptions and list entries that have not ended stand in their place.
//!
//! A set holds those that end by themselves beside its permanent parts. An agent puts them in their place when it accepts rules and
//! each time that one ends, so no call compares times.

use std::sync::Arc;

use super::{ListMatch, Origin, ResolvedCall, Rule, RuleSet, TimedCallers, TimedEnd, TimedEntry, TimedException};
use crate::clock::Timestamp;

#[doc(hidden)]
impl RuleSet {
    /// Returns the rules at an instant of store time: with the exceptions and list entries that have not ended in their place, and
    /// without the others.
    #[must_use]
    pub fn in_force_at(&self, now: Timestamp) -> Self {
        let mut set = self.clone();
        for rule in &mut set.rules {
            if !rule.timed.is_empty() {
                *rule = Arc::new(rule.in_force_at(now));
            }
        }
        set.lists.timed.retain(|entry| entry.end.until > now);
        for TimedEntry { denies, matches, .. } in &set.lists.timed {
            let list = if *denies { &mut set.lists.deny } else { &mut set.lists.allow };
            list.push(matches.clone());
        }
        set
    }

    /// Returns the end of the list entry that a call is on, if it ends by itself.
    #[must_use]
    pub fn end_of_entry(&self, list_match: ListMatch) -> Option<&TimedEnd> {
        let (denies, place, list) = match list_match {
            ListMatch::Unlisted => return None,
            ListMatch::Allowed(place) => (false, place, &self.lists.allow),
            ListMatch::Denied(place) => (true, place, &self.lists.deny),
        };
        let timed = || self.lists.timed.iter().filter(|entry| entry.denies == denies);
        // Those that end by themselves stand behind the others.
        let place = place.checked_sub(list.len().checked_sub(timed().count())?)?;
        timed().nth(place).map(|entry| &entry.end)
    }

    /// Returns the instant at which the next exception or list entry ends, if one does.
    #[must_use]
    pub fn next_end(&self) -> Option<Timestamp> {
        let exceptions = self.rules.iter().flat_map(|rule| &rule.timed).map(|exception| exception.end.until);
        exceptions.chain(self.lists.timed.iter().map(|entry| entry.end.until)).min()
    }
}

impl Rule {
    /// Returns the end of the exception that the policy of a call comes from, if it ends by itself.
    pub(super) fn end_of(&self, origin: Origin<'_>, call: &ResolvedCall<'_>) -> Option<&TimedEnd> {
        let is_of = |callers: &TimedCallers| match (callers, origin) {
            (TimedCallers::Key(key), Origin::Key) => self.per.first().and_then(|name| call.get(name)) == Some(&**key),
            (TimedCallers::Tier(tier), Origin::Tier(name)) => **tier == *name,
            (TimedCallers::All, Origin::Rule) => true,
            _ => false,
        };
        // The last one stands in the place of those before.
        self.timed.iter().rev().find(|exception| is_of(&exception.callers)).map(|exception| &exception.end)
    }

    fn in_force_at(&self, now: Timestamp) -> Self {
        let mut rule = self.clone();
        rule.timed.retain(|exception| exception.end.until > now);
        for TimedException { callers, policy, by_tier, .. } in &rule.timed {
            match callers {
                TimedCallers::Key(key) => {
                    rule.by_key.insert(key.clone(), *policy);
                    rule.by_key_and_tier.remove(key);
                    if !by_tier.is_empty() {
                        rule.by_key_and_tier.insert(key.clone(), by_tier.clone());
                    }
                }
                TimedCallers::All => rule.policy = *policy,
                TimedCallers::Tier(tier) => {
                    rule.by_tier.retain(|(known, _)| known != tier);
                    rule.by_tier.push((tier.clone(), *policy));
                }
            }
        }
        rule
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Call;
    use crate::rules::{LimitPolicy, Pattern};

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_ms(ms)
    }

    fn end(until: u64) -> TimedEnd {
        TimedEnd { until: at(until), reason: "sale".into() }
    }

    /// G2, G5, G9: the policy of a caller and the lists before and after the end of an exception.
    #[test]
    fn exceptions_and_entries_hold_until_their_end_and_what_stood_before_holds_again() {
        let policy = |quota: &str| Some(LimitPolicy::of(quota.parse().expect("a quota")));
        let mut rule = Rule::per("per-key", &["api_key"], "10/min".parse().expect("a quota"));
        rule.by_key.insert("k1".into(), policy("20/min"));
        rule.by_tier.push(("gold".into(), policy("50/min")));
        let timed = |callers, quota, until| TimedException {
            callers,
            policy: policy(quota),
            by_tier: vec![("gold".into(), policy("99/min"))],
            end: end(until),
        };
        rule.timed = vec![
            timed(TimedCallers::Key("k1".into()), "30/min", 100),
            timed(TimedCallers::Key("k2".into()), "40/min", 200),
            timed(TimedCallers::Tier("gold".into()), "60/min", 200),
        ];
        let mut set = RuleSet::new(1, [rule]);
        let entry = |denies, key: &str, until| TimedEntry {
            denies,
            matches: vec![("api_key".into(), Pattern::Exact(key.into()))],
            end: end(until),
        };
        set.lists.timed = vec![entry(true, "bad", 100), entry(false, "good", 200)];
        let quota = |set: &RuleSet, key: &str, tier: &str| {
            let call = Call::new().with("api_key", key).with("tier", tier);
            let resolved = set.resolved(&call);
            let list = match set.list_match(&resolved) {
                ListMatch::Unlisted => "",
                ListMatch::Allowed(_) => "allowed ",
                ListMatch::Denied(_) => "denied ",
            };
            let policy = set.rules[0].policy_for(&resolved).0.expect("a policy");
            format!("{list}{}", policy.quota.units())
        };
        let cases = [
            (99, ["30", "99", "40", "denied 10", "allowed 60"], Some(100)),
            (100, ["20", "20", "40", "10", "allowed 60"], Some(200)),
            (200, ["20", "20", "10", "10", "50"], None),
        ];
        for (now, expected, next_end) in cases {
            let set = set.in_force_at(at(now));
            let found = [
                quota(&set, "k1", "none"),
                quota(&set, "k1", "gold"),
                quota(&set, "k2", "none"),
                quota(&set, "bad", "none"),
                quota(&set, "good", "gold"),
            ];
            assert_eq!((found.each_ref().map(|text| &**text), set.next_end()), (expected, next_end.map(at)), "{now}");
        }
    }
}
