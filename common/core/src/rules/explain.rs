//! Why a call is limited as it is: what is known of it, what the lists say, and of each rule whether it applies, on which policy
//! and from where, or why not.
//!
//! Values are whole; whoever shows them cuts what [`RuleSet::is_secret`] says is secret.

use std::sync::Arc;

use super::{ApplicableRule, LimitPolicy, ListMatch, Origin, Pattern, ResolvedCall, Rule, RuleSet};
use crate::call::Call;

/// Why a call is limited as it is.
#[derive(Clone, Debug)]
pub struct Explanation<'a> {
    /// What is known of the call: what it says, then what follows.
    pub descriptors: Vec<Fact<'a>>,
    /// What the lists say.
    pub list_match: ListMatch,
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
        /// On these policy; none when it does not limit this caller.
        policy: Option<LimitPolicy>,
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
        let described = self.resolved(call);
        let applicable = self.applicable(&described);
        let rules = self.rules.iter().enumerate().map(|(index, rule)| {
            let fate = match applicable.iter().find(|found| found.index == index) {
                Some(found) => {
                    let cost = rule.cost_of(&described, call.cost());
                    Fate::Applies { policy: found.policy, origin: found.origin, cost }
                }
                None => rule.mismatch(&described).unwrap_or_else(|| put_aside(rule, &applicable)),
            };
            Explained { rule, fate }
        });
        Explanation {
            descriptors: self.facts(call, &described),
            list_match: self.list_match(&described),
            rules: rules.collect(),
        }
    }

    fn facts<'a>(&'a self, call: &'a Call<'_>, described: &ResolvedCall<'a>) -> Vec<Fact<'a>> {
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
fn put_aside<'a>(rule: &Rule, applicable: &[ApplicableRule<'a>]) -> Fate<'a> {
    let by = |puts_aside: &dyn Fn(&Rule) -> bool| {
        applicable.iter().find(|other| puts_aside(other.rule)).map(|other| &*other.rule.name)
    };
    if let Some(by) = by(&|other| other.replaces.contains(&rule.name)) {
        return Fate::Replaced { by };
    }
    let than = by(&|other| rule.group.is_some() && other.group == rule.group);
    than.map_or(Fate::NotAsked, |than| Fate::LessSpecific { than })
}

impl Rule {
    /// Why it does not speak of a call, if it does not.
    fn mismatch<'a>(&'a self, call: &ResolvedCall<'a>) -> Option<Fate<'a>> {
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
