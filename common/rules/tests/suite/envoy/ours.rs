//! The imported rules, applied to the descriptors of a request as the sidecar's `/json` applies them.

use std::sync::Arc;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::call::Call;
use tollgate_core::rules::{ApplicableRule, Charging, Consistency, MatchScope, RuleSet};
use tollgate_rules::import::envoy_names;

use super::oracle::Entry;

/// Text of a rule that denies, which is a limit of 0.
pub(crate) const DENIED: &str = "denied";

pub(crate) struct Ours {
    set: RuleSet,
}

/// Rule that applies, and its counter.
#[derive(Clone, Debug)]
pub(crate) struct Applied {
    pub(crate) says: String,
    /// Name of the rule, and the values of `per`.
    pub(crate) counter: (String, Vec<String>),
}

impl Ours {
    pub(crate) fn new(text: &str) -> Self {
        let set = tollgate_rules::from_yaml("imported.yaml", text, 1);
        Self { set: set.unwrap_or_else(|problems| panic!("{problems}\n{text}")) }
    }

    /// Returns the limit of each descriptor of one request. A rule that is replaced for one descriptor applies to none.
    pub(crate) fn request(&self, domain: &str, descriptors: &[Vec<Entry>]) -> Vec<Option<Applied>> {
        let calls: Vec<_> = descriptors.iter().map(|descriptor| call(domain, descriptor)).collect();
        let mut replaced = Vec::new();
        for call in &calls {
            for applicable in self.set.applicable(&self.set.resolved_within(call, entries(&[]))) {
                replaced.extend(applicable.rule.replaces.iter().cloned());
            }
        }
        calls.iter().map(|call| self.applied(call, &replaced)).collect()
    }

    fn applied(&self, call: &Call<'_>, replaced: &[Arc<str>]) -> Option<Applied> {
        let resolved = self.set.resolved_within(call, entries(replaced));
        let applicable = self.set.applicable(&resolved);
        assert!(applicable.len() <= 1, "one descriptor has one limit: {call:?}");
        let applicable = applicable.first()?;
        let values = applicable.rule.values(&resolved).map(str::to_owned).collect();
        Some(Applied { says: says(applicable), counter: (applicable.rule.name.to_string(), values) })
    }
}

/// Scope of the entries of one Envoy descriptor.
fn entries(excluded: &[Arc<str>]) -> MatchScope<'_> {
    MatchScope { ordered_entries: true, excluded, tells_all: false }
}

fn says(applicable: &ApplicableRule<'_>) -> String {
    if applicable.rule.deny {
        return DENIED.to_owned();
    }
    let Some(policy) = &applicable.policy else {
        return "unlimited".to_owned();
    };
    assert_eq!((policy.algorithm, policy.consistency), (Algorithm::FixedWindow, Consistency::Bounded));
    assert_eq!(applicable.rule.charge, Charging::Each);
    let shadow = if applicable.rule.shadow { " shadow" } else { "" };
    format!("{}/{}s{shadow}", policy.quota.units(), policy.quota.width_ms() / 1_000)
}

fn call(domain: &str, descriptor: &[Entry]) -> Call<'static> {
    let names = envoy_names(descriptor.iter().map(|(key, _)| key.as_str()));
    let pairs = names.iter().zip(descriptor).map(|(name, (_, value))| (name.to_string(), value.clone()));
    let call = Call::new().with("domain", domain.to_owned());
    pairs.fold(call, |call, (name, value)| call.with(name, value))
}
