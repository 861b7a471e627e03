//! A rule's policy for everyone, for tiers and for single keys.
//!
//! defaults < the file's tiers < the rule < its `tiers` < its `keys`. Only the policy that differ from everyone's are kept.
//! A key's exception rests on everyone's policy, for which tier a key is in is only known when it calls.

use std::collections::HashMap;
use std::sync::Arc;

use super::quota::Asked;
use super::resolve::resolve;
use super::rule::Context;
use super::settings::{Allowed, Burst, Said, Settings};
use super::tiers::{self, Exceptions, Tiers, read_exceptions};
use crate::hint;
use crate::yaml::{Fields, Reader, line_of};
use tollgate_core::rules::LimitPolicy;

/// Everyone's policy, and those of tiers and keys that differ.
pub(super) type AllPolicies =
    (Option<LimitPolicy>, Vec<(Arc<str>, Option<LimitPolicy>)>, HashMap<Box<str>, Option<LimitPolicy>>);

/// What a rule's policy are made of.
pub(super) struct Layers<'a> {
    pub(super) quota: Asked,
    pub(super) own: Settings,
    pub(super) context: &'a Context<'a>,
}

/// Collects what is wrong with a rule's policy, the same thing once.
struct Making<'a, 'r, 'f> {
    reader: &'a mut Reader<'f>,
    layers: &'a Layers<'r>,
    line: usize,
    /// The rule's own exceptions by tier.
    tiers: Exceptions,
    told: Vec<(usize, String)>,
}

/// Nothing when they cannot be had; `readable` says whether the rule's own settings could be read, for what follows from half
/// of them is not worth a word.
pub(super) fn read_terms(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    layers: &Layers<'_>,
    per: Option<&[Arc<str>]>,
    readable: bool,
) -> Option<AllPolicies> {
    let before = reader.problems.len();
    let tiers = fields.get("tiers").map(|node| read_exceptions(reader, node, "`tiers`")).unwrap_or_default();
    let keys = fields.get("keys").map(|node| read_exceptions(reader, node, "`keys`")).unwrap_or_default();
    let readable = readable && reader.problems.len() == before;
    check_tiers(reader, &tiers, layers.context.tiers);
    // Of the file's own tiers it has been told.
    if let (Some(node), true) = (fields.get("tiers"), layers.context.tiers.settings.is_empty()) {
        tiers::check_tiers(reader, line_of(node), layers.context.tiers, layers.context.descriptors);
    }
    check_unlimited(reader, layers, &tiers, &keys);
    if let Some(node) = fields.get("keys") {
        check_keys(reader, line_of(node), &keys, per);
    }
    if !readable {
        return None;
    }
    let mut making = Making { reader, layers, line: fields.line(), tiers, told: Vec::new() };
    let base = making.base()?;
    let policy = making.resolve(&base, making.line, "");
    let mut by_tier = making.by_tier();
    by_tier.retain(|(_, by_tier)| Ok(*by_tier) != policy);
    let by_key = making.by_key(&base, &keys);
    (making.reader.problems.len() == before).then_some((policy.ok()?, by_tier, by_key))
}

fn check_tiers(reader: &mut Reader<'_>, exceptions: &Exceptions, tiers: &Tiers) {
    for (name, _, line) in exceptions {
        if !tiers.settings.is_empty() && tiers.get(name).is_none() {
            let hint = hint(name, tiers.names());
            reader.refuse(*line, format!("`{name}` is not under the file's `tiers`; add `{name}: {{}}` there{hint}"));
        }
    }
}

/// That nothing says how to count what is not limited; a rule may, for its tiers or keys that are.
fn check_unlimited(reader: &mut Reader<'_>, layers: &Layers<'_>, tiers: &Exceptions, keys: &Exceptions) {
    let limited = |settings: &Settings| matches!(settings.quota.map(|said| said.value), Some(Allowed::UpTo(_)));
    let own = Settings { quota: layers.quota.own(), ..layers.own };
    let exceptions = || tiers.iter().chain(keys).map(|(_, settings, _)| settings);
    let rule = (!exceptions().any(limited)).then_some(&own);
    for settings in rule.into_iter().chain(exceptions()) {
        if !matches!(settings.quota.map(|said| said.value), Some(Allowed::Unlimited)) {
            continue;
        }
        let algorithm = settings.algorithm.map(|said| ("algorithm", said.line));
        let burst = settings.burst.filter(|said| !matches!(said.value, Burst::Usual)).map(|said| ("burst", said.line));
        for (field, line) in algorithm.into_iter().chain(burst) {
            reader
                .refuse(line, format!("`quota: unlimited` counts nothing and takes no {field}; remove one of the two"));
        }
    }
}

fn check_keys(reader: &mut Reader<'_>, line: usize, keys: &Exceptions, per: Option<&[Arc<str>]>) {
    if per.is_some_and(<[_]>::is_empty) {
        reader.refuse(line, "`keys` are values of the first descriptor of `per`, and there is none; write `per`");
    }
    for (_, _, line) in keys.iter().filter(|(key, ..)| key.contains(['*', '?'])) {
        let text =
            "a key is one whole value, not a pattern; make those callers a tier, or write a rule with `match` for them";
        reader.refuse(*line, text);
    }
}

/// The layers make no policy, and that has been told.
#[derive(PartialEq, Eq)]
struct Told;

/// A rule's own settings, and those below.
type Base = (Settings, Settings);

impl Making<'_, '_, '_> {
    /// The layers of a caller in this tier, or in none.
    fn layers_of(&self, tier: Option<&str>) -> Base {
        let context = self.layers.context;
        let own = Settings { quota: self.layers.quota.own(), ..self.layers.own };
        let exception = tier.and_then(|tier| self.tiers.iter().find(|(name, ..)| **name == *tier));
        let below = tier.and_then(|tier| context.tiers.get(tier)).copied().unwrap_or_default();
        (exception.map_or(own, |(_, settings, _)| settings.over(own)), below.over(context.defaults))
    }

    fn quota_of(&self, tier: Option<&str>) -> Option<Said<Allowed>> {
        let (own, inherited) = self.layers_of(tier);
        own.over(inherited).quota
    }

    fn known_tiers(&self) -> Vec<Arc<str>> {
        let of_file = &self.layers.context.tiers.settings;
        if of_file.is_empty() { &self.tiers } else { of_file }.iter().map(|(name, ..)| name.clone()).collect()
    }

    /// The layers of everyone without an exception: of the tier that such callers are in, where no quota holds without one.
    fn base(&mut self) -> Option<Base> {
        if self.quota_of(None).is_some() {
            return Some(self.layers_of(None));
        }
        let known = self.known_tiers();
        let default = self.layers.context.tiers.default.clone().filter(|default| known.contains(default));
        if let Some(default) = default.filter(|default| self.quota_of(Some(default)).is_some()) {
            return Some(self.layers_of(Some(&default)));
        }
        let with_quota: Vec<&str> =
            known.iter().map(|name| &**name).filter(|name| self.quota_of(Some(name)).is_some()).collect();
        let (line, text) = match (with_quota.first(), &self.layers.quota) {
            (Some(first), _) => {
                let text = format!(
                    "callers without a known tier would not be limited by this rule; give the descriptor `tier` a `default:` that is a tier with a quota, such as `default: {first}`, or write `quota:` under `defaults`"
                );
                (self.line, text)
            }
            (None, Asked::Inherited { by_tier: Some(line) }) => {
                let text = "`quota: tier`, but no tier has a quota, nor have `defaults`; write one there, or here, such as `quota: 100/min`";
                (*line, text.to_owned())
            }
            (None, _) => {
                let text = "the rule has no `quota`; write one, such as `quota: 100/min`, here, under `defaults`, or for each of the `tiers`";
                (self.line, text.to_owned())
            }
        };
        self.reader.refuse(line, text);
        None
    }

    fn by_tier(&mut self) -> Vec<(Arc<str>, Option<LimitPolicy>)> {
        let mut by_tier = Vec::new();
        for name in self.known_tiers() {
            let line = self.tiers.iter().find(|(known, ..)| *known == name).map_or(self.line, |(.., line)| *line);
            if self.quota_of(Some(&name)).is_none() {
                self.reader.refuse(
                    line,
                    format!("tier `{name}` has no quota under this rule; write one for it, or under `defaults`"),
                );
                continue;
            }
            if let Ok(policy) = self.resolve(&self.layers_of(Some(&name)), line, &format!("tier `{name}`: ")) {
                by_tier.push((name, policy));
            }
        }
        by_tier
    }

    fn by_key(&mut self, base: &Base, keys: &Exceptions) -> HashMap<Box<str>, Option<LimitPolicy>> {
        let varies = self.known_tiers().iter().any(|tier| {
            self.quota_of(Some(tier)).map(|said| said.value) != base.0.over(base.1).quota.map(|said| said.value)
        });
        let mut by_key = HashMap::new();
        for (key, settings, line) in keys {
            if varies && settings.quota.is_none() {
                let text = "the quota depends on the caller's tier, and an exception for a key does not; write its `quota` here";
                self.reader.refuse(*line, text);
            }
            if let Ok(policy) = self.resolve(&(settings.over(base.0), base.1), *line, "") {
                by_key.insert(Box::from(&**key), policy);
            }
        }
        by_key
    }

    /// The policy of layers; when they make none, that is told once.
    fn resolve(&mut self, (own, inherited): &Base, line: usize, whose: &str) -> Result<Option<LimitPolicy>, Told> {
        match resolve(own, inherited) {
            Ok(policy) => Ok(policy),
            Err((at, text)) => {
                let at = at.unwrap_or(line);
                if !self.told.contains(&(at, text.clone())) {
                    self.told.push((at, text.clone()));
                    self.reader.refuse(at, format!("{whose}{text}"));
                }
                Err(Told)
            }
        }
    }
}
