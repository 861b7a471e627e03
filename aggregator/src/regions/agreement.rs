//! Agreement of the rules of this region with the terms in the ledger.
//!
//! A window or a scope that differs from that of the terms makes the budget worthless: units of another window, or a whole quota of
//! the region's own. Such a region asks for no units of the rule.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_aggregator_engine::budget::ledger::Ledger;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::ledger::{LedgerEntry, LedgerRecord};

use super::global_rules::GlobalRules;

/// Time for which a difference lasts before it is logged, in ms: a change of the rules does not reach all regions at once.
const LOGGED_AFTER_MS: u64 = 5_000;
/// Time for which terms are awaited before their absence is logged, in ms.
const TERMS_WAIT_MS: u64 = 10_000;

/// Differences between the rules of this region and the ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreement {
    found: BTreeMap<Arc<str>, RuleDifference>,
    /// Time since which terms are missing, and true once this is logged.
    missing: Option<(Timestamp, bool)>,
}

#[derive(Clone, Debug)]
struct RuleDifference {
    reason: String,
    since: Timestamp,
    is_logged: bool,
}

impl Agreement {
    /// Compares the rules with the terms, and logs the differences that last.
    pub(super) fn check(&mut self, now: Timestamp, region: &str, rules: &GlobalRules, ledger: &Ledger) {
        let reasons: BTreeMap<_, _> =
            ledger.rules().filter_map(|terms| Some((terms.rule.clone(), rules.difference(terms)?))).collect();
        for (rule, difference) in &self.found {
            if difference.is_logged && !reasons.contains_key(rule) {
                tracing::info!(%rule, region, "the rule is as in the ledger, so this region asks for units of it again");
            }
        }
        let mut before = std::mem::take(&mut self.found);
        for (rule, reason) in reasons {
            let known = before.remove(&rule).filter(|known| known.reason == reason);
            let mut found = known.unwrap_or(RuleDifference { reason, since: now, is_logged: false });
            if !found.is_logged && now.ms_since(found.since) >= LOGGED_AFTER_MS {
                found.is_logged = true;
                tracing::error!(
                    %rule, region,
                    "this region asks for no units of the rule: {}; give all regions the same rules, with `tollgate rules publish FILE` in each, or with the same --rules FILE and SIGHUP",
                    found.reason
                );
            }
            self.found.insert(rule, found);
        }
    }

    /// Logs rules that have no terms in a ledger that is read to its end.
    pub(super) fn await_terms(&mut self, now: Timestamp, region: &str, rules: &GlobalRules, ledger: &Ledger) {
        let terms = rules.terms();
        let Some(missing) = terms.iter().find(|terms| ledger.terms(&terms.rule).is_none()) else {
            self.missing = None;
            return;
        };
        let (since, is_logged) = self.missing.get_or_insert((now, false));
        if !*is_logged && now.ms_since(*since) >= TERMS_WAIT_MS {
            *is_logged = true;
            tracing::warn!(
                rule = %missing.rule, region,
                "the ledger has no terms of the rule, so no units move and each region has its floor: nobody coordinates; start an aggregator in the home region with the same brokers for --kafka and --ledger, or with --coordinator, and give it the rules"
            );
        }
    }

    /// Returns the reason for which this region asks for no units of a rule.
    pub(super) fn difference(&self, rule: &str) -> Option<&str> {
        self.found.get(rule).map(|found| &*found.reason)
    }

    /// Returns true if an entry may be appended: requests and renewals of a rule that differs may not.
    pub(super) fn allows(&self, ledger: &Ledger, record: &LedgerRecord) -> bool {
        if self.found.is_empty() {
            return true;
        }
        let rule = match &record.entry {
            LedgerEntry::Request(request) => {
                ledger.rules().find(|terms| ledger.terms(&terms.rule).is_some_and(|(id, _)| id == request.terms))
            }
            LedgerEntry::Renewal { counter, .. } => {
                ledger.counters().find(|(id, ..)| id == counter).map(|(_, terms, _)| terms)
            }
            _ => None,
        };
        rule.is_none_or(|terms| !self.found.contains_key(&terms.rule))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::{CounterId, DigestKey};
    use tollgate_core::messages::ledger::{BudgetRequest, EntryId};
    use tollgate_core::regions::RegionFloorRatio;
    use tollgate_core::rules::{Quota, Rule, RuleSet, Scope};

    use super::*;

    fn rules(window_ms: u64, scope: Scope) -> GlobalRules {
        let mut rule = Rule::per("shared", &["api_key"], Quota::new(100, window_ms).unwrap());
        rule.scope = scope;
        let mut set = RuleSet::new(1, [rule]);
        set.regions = vec![RegionFloorRatio { region: "eu".into(), floor_ppm: 100_000 }];
        let rules = GlobalRules::new(&DigestKey::default(), "eu");
        rules.set(&set);
        rules
    }

    /// J3: a region with another window or scope would admit a quota of its own.
    #[test]
    fn a_region_whose_rule_differs_from_the_terms_asks_for_nothing() {
        let id = EntryId { writer: 9, sequence: 1 };
        let terms = rules(10_000, Scope::Global).terms()[0].clone();
        let mut ledger = Ledger::default();
        ledger.apply(&LedgerRecord { id, entry: LedgerEntry::Terms(terms) }).expect("new terms");
        let request = BudgetRequest { terms: id, counter: CounterId::from_u128(1), region: "eu".into(), wants: 40 };
        let request = LedgerRecord { id: EntryId { writer: 5, sequence: 1 }, entry: LedgerEntry::Request(request) };
        ledger.apply(&request).expect("a request");
        let grant = LedgerEntry::Grant { counter: CounterId::from_u128(1), request: request.id, units: 30 };
        let grant = LedgerRecord { id: EntryId { writer: 9, sequence: 2 }, entry: grant };
        ledger.apply(&grant).expect("a grant");
        let counter = CounterId::from_u128(1);
        let renewal = |entry| LedgerRecord { id: EntryId { writer: 5, sequence: 2 }, entry };
        let renewal = renewal(LedgerEntry::Renewal { counter, grant: grant.id, wants: 40 });
        let mut agreement = Agreement::default();
        for (rules, reason) in [
            (
                rules(60_000, Scope::Global),
                Some("its window is 60 s in the rules of this region, and 10 s in the ledger"),
            ),
            (rules(10_000, Scope::Global), None),
            (
                rules(10_000, Scope::Regional),
                Some("it has `scope: regional` in the rules of this region, and `scope: global` in the ledger"),
            ),
            (GlobalRules::new(&DigestKey::default(), "eu"), None),
        ] {
            agreement.check(Timestamp::from_ms(1), "eu", &rules, &ledger);
            assert_eq!(agreement.difference("shared"), reason);
            for record in [&request, &renewal] {
                assert_eq!(agreement.allows(&ledger, record), reason.is_none(), "{reason:?}");
            }
            assert!(agreement.allows(&ledger, &grant), "of the coordinator");
        }
    }
}
