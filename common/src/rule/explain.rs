//! Why a call is limited as it is: what is known of it, what the lists say, and of each rule whether it applies, on which terms
//! and from where, or why not.
//!
//! Values are whole; whoever shows them cuts what [`RuleSet::is_secret`] says is secret.

use std::sync::Arc;

use super::{Applying, Described, Origin, Pattern, Rule, RuleSet, Standing, Terms};
use crate::call::Call;

/// Why a call is limited as it is.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// What is known of the call: what it says, then what follows.
    pub descriptors: Vec<Fact<'a>>,
    /// What the lists say.
    pub standing: Standing,
    /// All rules, in their order.
    pub rules: Vec<Explained<'a>>,
}

/// One descriptor of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fact<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its value.
    pub value: &'a str,
    /// Whether it is more than a client's word.
    pub verified: bool,
    /// Whether it follows from the rules file and not from the call.
    pub derived: bool,
}

/// One rule.
#[derive(Clone, Debug)]
pub struct Explained<'a> {
    /// The rule.
    pub rule: &'a Arc<Rule>,
    /// What becomes of it.
    pub fate: Fate<'a>,
}

/// What becomes of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate<'a> {
    /// It applies.
    Applies {
        /// On these terms; none when it does not limit this caller.
        terms: Option<Terms>,
        /// Where they come from.
        origin: Origin<'a>,
        /// How many units the call takes.
        cost: u64,
    },
    /// The call is not one of those that it can speak of: it leaves the rule aside, or has more or less descriptors.
    NotAsked,
    /// What `match` asks is not so.
    Mismatch {
        /// The descriptor.
        descriptor: &'a str,
        /// What it must look like.
        pattern: &'a Pattern,
        /// What it is, if the call has it.
        value: Option<&'a str>,
    },
    /// A descriptor of `per` that the call has not.
    Missing {
        /// The descriptor.
        descriptor: &'a str,
    },
    /// A rule of its group is more specific, or equally so and stands above.
    LessSpecific {
        /// That rule.
        than: &'a str,
    },
    /// A rule that applies puts it aside.
    Replaced {
        /// That rule.
        by: &'a str,
    },
}

impl RuleSet {
    /// Why a call is limited as it is.
    #[must_use]
    pub fn explain<'a>(&'a self, call: &'a Call<'_>) -> Explanation<'a> {
        let described = self.described(call);
        let applying = self.applying(&described);
        let rules = self.rules.iter().enumerate().map(|(index, rule)| {
            let fate = match applying.iter().find(|found| found.index == index) {
                Some(found) => {
                    let cost = rule.cost_of(&described, call.cost());
                    Fate::Applies { terms: found.terms, origin: found.origin, cost }
                }
                None => rule.mismatch(&described).unwrap_or_else(|| put_aside(rule, &applying)),
            };
            Explained { rule, fate }
        });
        Explanation {
            descriptors: self.facts(call, &described),
            standing: self.standing(&described),
            rules: rules.collect(),
        }
    }

    fn facts<'a>(&'a self, call: &'a Call<'_>, described: &Described<'a>) -> Vec<Fact<'a>> {
        let fact = |name: &'a str, value: &'a str, derived: bool| Fact {
            name,
            value,
            verified: described.verified(name) == Some(value),
            derived,
        };
        let said = call.descriptors().map(|(name, value)| fact(name, value, false));
        let follows = self.descriptors.iter().map(|spec| &*spec.name).filter(|name| call.get(name).is_none());
        said.chain(follows.filter_map(|name| Some(fact(name, described.get(name)?, true)))).collect()
    }
}

/// Which of the rules that apply puts aside one that speaks of the call, too.
fn put_aside<'a>(rule: &Rule, applying: &[Applying<'a>]) -> Fate<'a> {
    let by = |puts_aside: &dyn Fn(&Rule) -> bool| {
        applying.iter().find(|other| puts_aside(other.rule)).map(|other| &*other.rule.name)
    };
    if let Some(by) = by(&|other| other.replaces.contains(&rule.name)) {
        return Fate::Replaced { by };
    }
    let than = by(&|other| rule.group.is_some() && other.group == rule.group);
    than.map_or(Fate::NotAsked, |than| Fate::LessSpecific { than })
}

impl Rule {
    /// Why it does not speak of a call, if it does not.
    fn mismatch<'a>(&'a self, call: &Described<'a>) -> Option<Fate<'a>> {
        if !call.admits(&self.name, &self.matches) {
            return Some(Fate::NotAsked);
        }
        let wrong =
            self.matches.iter().find(|(name, pattern)| !call.get(name).is_some_and(|value| pattern.matches(value)));
        if let Some((name, pattern)) = wrong {
            return Some(Fate::Mismatch { descriptor: name, pattern, value: call.get(name) });
        }
        let missing = self.per.iter().find(|name| call.get(name).is_none());
        missing.map(|name| Fate::Missing { descriptor: name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "
descriptors:
  api_key: { header: x-api-key }
  tier: { of: api_key, map: { sk_pro_*: pro }, default: free }
tiers: { free: { quota: 1/s }, pro: { quota: 2/s } }
rules:
  - { name: key, per: [api_key], quota: tier, keys: { vip: { quota: 9/s } } }
  - { name: search, per: [api_key], quota: 3/s, match: { endpoint: /search* }, group: g, cost: 2 }
  - { name: any, per: [api_key], quota: 4/s, group: g }
  - { name: tenant, per: [tenant], quota: 5/s }
  - { name: batch, per: [], quota: 6/s, match: { endpoint: /search/batch }, replaces: key }
lists: { deny: [{ api_key: bad }] }
";

    fn fates<'a>(set: &'a RuleSet, call: &'a Call<'_>) -> Vec<Fate<'a>> {
        set.explain(call).rules.into_iter().map(|explained| explained.fate).collect()
    }

    #[test]
    fn every_rule_says_why() {
        let set = RuleSet::from_yaml("rules.yaml", RULES, 1).unwrap();
        let call = Call::new().with("api_key", "sk_pro_1").with("endpoint", "/search/batch");
        let [key, search, any, tenant, batch] = fates(&set, &call)[..] else { panic!("five rules") };
        assert_eq!(key, Fate::Replaced { by: "batch" });
        assert!(matches!(search, Fate::Applies { cost: 2, origin: Origin::Rule, .. }));
        assert_eq!(any, Fate::LessSpecific { than: "search" });
        assert_eq!(tenant, Fate::Missing { descriptor: "tenant" });
        assert!(matches!(batch, Fate::Applies { cost: 1, .. }));

        let call = Call::new().with("api_key", "sk_pro_1").with("endpoint", "/users");
        let found = fates(&set, &call);
        assert!(matches!(found[0], Fate::Applies { origin: Origin::Tier("pro"), .. }));
        assert!(matches!(found[1], Fate::Mismatch { descriptor: "endpoint", value: Some("/users"), .. }));
        assert!(matches!(found[2], Fate::Applies { .. }));
        assert!(matches!(fates(&set, &Call::new())[4], Fate::Mismatch { value: None, .. }));
    }

    #[test]
    fn what_follows_is_told_and_a_clients_word_is_called_that() {
        let set = RuleSet::from_yaml("rules.yaml", RULES, 1).unwrap();
        let mut call = Call::new().with("endpoint", "/users");
        call.claim("api_key".into(), "sk_pro_1".into());
        let told = set.explain(&call);
        let fact = |name: &str| *told.descriptors.iter().find(|fact| fact.name == name).unwrap();
        assert!(!fact("api_key").verified && fact("endpoint").verified && !fact("endpoint").derived);
        assert_eq!(fact("tier"), Fact { name: "tier", value: "free", verified: true, derived: true });
        assert!(matches!(told.rules[0].fate, Fate::Applies { origin: Origin::Rule, .. }), "no tier by a client's word");
        assert_eq!(set.explain(&Call::new().with("api_key", "bad")).standing, Standing::Denied(0));
    }

    /// The fate is told by other code than that which decides, so both are held together.
    #[test]
    fn what_is_said_to_apply_is_what_applies() {
        let set = RuleSet::from_yaml("rules.yaml", RULES, 1).unwrap();
        for endpoint in ["/search/batch", "/search/x", "/users"] {
            for name in ["api_key", "tenant", "user"] {
                let call = Call::new().with(name, "vip").with("endpoint", endpoint);
                let told = set.explain(&call);
                let applies = |fate: &Fate<'_>| matches!(fate, Fate::Applies { .. });
                let said: Vec<_> =
                    told.rules.iter().filter(|found| applies(&found.fate)).map(|found| &*found.rule.name).collect();
                let described = set.described(&call);
                let mut found: Vec<_> = set.applying(&described).iter().map(|a| (a.index, &*a.rule.name)).collect();
                found.sort_unstable();
                assert_eq!(said, found.into_iter().map(|(_, name)| name).collect::<Vec<_>>());
                assert!(told.rules.iter().all(|found| found.fate != Fate::NotAsked));
            }
        }
    }
}
