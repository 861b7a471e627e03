//! Policies of a rule: the one for all callers, and those for tiers and single keys.
//!
//! Precedence: defaults < the file's tiers < the rule < its `tiers` < its `keys`. Only tiers whose policy differs are kept. The
//! exception of a key starts from the policy for all callers, because the tier of a key is known only when it calls. The
//! merge of two layers is in `settings::layer`.

use std::collections::HashMap;
use std::sync::Arc;

use super::quota::RuleQuota;
use super::rule::FileContext;
use super::tiers::{self, Exceptions, Tiers, read_exceptions};
use crate::hint;
use crate::settings::{Layer, Located, QuotaValue, resolve};
use crate::yaml::{Fields, YamlReader, line_of};
use tollgate_core::rules::LimitPolicy;

/// Policies of a rule; none stands for a caller that is not limited.
pub(super) struct RulePolicies {
    /// Policy for all callers without a policy of their own.
    pub(super) policy: Option<LimitPolicy>,
    pub(super) by_tier: Vec<(Arc<str>, Option<LimitPolicy>)>,
    pub(super) by_key: HashMap<Box<str>, Option<LimitPolicy>>,
}

/// Layers that the policies of a rule are made of.
pub(super) struct PolicySources<'a> {
    pub(super) quota: &'a RuleQuota,
    pub(super) own: Layer,
    pub(super) context: &'a FileContext<'a>,
}

/// Builder of a rule's policies, which reports each problem once.
struct PolicyBuilder<'a, 'r, 'f> {
    reader: &'a mut YamlReader<'f>,
    sources: &'a PolicySources<'r>,
    line: usize,
    /// The rule's own exceptions by tier.
    tiers: Exceptions,
    reported: Vec<(usize, String)>,
}

/// Reads the exceptions and builds all policies; none when there is a problem. `readable` is false when the rule's own
/// settings have problems, which are then not followed by further ones.
pub(super) fn read_policies(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    sources: &PolicySources<'_>,
    per: Option<&[Arc<str>]>,
    readable: bool,
) -> Option<RulePolicies> {
    let before = reader.problems.len();
    let tiers = fields.get("tiers").map(|node| read_exceptions(reader, node, "`tiers`")).unwrap_or_default();
    let keys = fields.get("keys").map(|node| read_exceptions(reader, node, "`keys`")).unwrap_or_default();
    let readable = readable && reader.problems.len() == before;
    check_tiers(reader, &tiers, sources.context.tiers);
    // The file's own tiers are checked once, by the file.
    if let (Some(node), true) = (fields.get("tiers"), sources.context.tiers.layers.is_empty()) {
        tiers::check_tiers(reader, line_of(node), sources.context.tiers, sources.context.descriptors);
    }
    check_unlimited(reader, &sources.own, &tiers, &keys);
    if let Some(node) = fields.get("keys") {
        check_keys(reader, line_of(node), &keys, per);
    }
    if !readable {
        return None;
    }
    let mut builder = PolicyBuilder { reader, sources, line: fields.line(), tiers, reported: Vec::new() };
    let base = builder.base()?;
    let policy = builder.resolve(&base, builder.line, "");
    let mut by_tier = builder.by_tier();
    by_tier.retain(|(_, by_tier)| Ok(*by_tier) != policy);
    let by_key = builder.by_key(&base, &keys);
    (builder.reader.problems.len() == before).then_some(RulePolicies { policy: policy.ok()?, by_tier, by_key })
}

fn check_tiers(reader: &mut YamlReader<'_>, exceptions: &Exceptions, tiers: &Tiers) {
    for (name, _, line) in exceptions {
        if !tiers.layers.is_empty() && tiers.get(name).is_none() {
            let hint = hint(name, tiers.names());
            reader.refuse(*line, format!("`{name}` is not under the file's `tiers`; add `{name}: {{}}` there{hint}"));
        }
    }
}

/// Refuses settings of counting beside `quota: unlimited`. A rule may have them for its tiers or keys that are limited.
fn check_unlimited(reader: &mut YamlReader<'_>, own: &Layer, tiers: &Exceptions, keys: &Exceptions) {
    let quota = |layer: &Layer| layer.quota.map(|quota| quota.value);
    let exceptions = || tiers.iter().chain(keys).map(|(_, layer, _)| layer);
    let limits_some = exceptions().any(|layer| matches!(quota(layer), Some(QuotaValue::UpTo(_))));
    let rule = (!limits_some).then_some(own);
    for layer in rule.into_iter().chain(exceptions()) {
        if quota(layer) != Some(QuotaValue::Unlimited) {
            continue;
        }
        for (field, line) in layer.without_effect_if_unlimited() {
            reader
                .refuse(line, format!("`quota: unlimited` counts nothing and takes no {field}; remove one of the two"));
        }
    }
}

fn check_keys(reader: &mut YamlReader<'_>, line: usize, keys: &Exceptions, per: Option<&[Arc<str>]>) {
    if per.is_some_and(<[_]>::is_empty) {
        reader.refuse(line, "`keys` are values of the first descriptor of `per`, and there is none; write `per`");
    }
    for (_, _, line) in keys.iter().filter(|(key, ..)| key.contains(['*', '?'])) {
        let text =
            "a key is one whole value, not a pattern; make those callers a tier, or write a rule with `match` for them";
        reader.refuse(*line, text);
    }
}

/// Error of layers that make no policy; the problem is already reported.
#[derive(PartialEq, Eq)]
struct Reported;

/// A rule's own settings, and those that it inherits.
type OwnAndInherited = (Layer, Layer);

impl PolicyBuilder<'_, '_, '_> {
    /// Returns the layers of a caller in this tier, or in none.
    fn layers_of(&self, tier: Option<&str>) -> OwnAndInherited {
        let PolicySources { own, context, .. } = self.sources;
        let exception = tier.and_then(|tier| self.tiers.iter().find(|(name, ..)| **name == *tier));
        let of_file = tier.and_then(|tier| context.tiers.get(tier));
        let own = exception.map_or_else(|| own.clone(), |(_, layer, _)| layer.over(own));
        (own, of_file.map_or_else(|| context.defaults.clone(), |layer| layer.over(&context.defaults)))
    }

    fn quota_of(&self, tier: Option<&str>) -> Option<Located<QuotaValue>> {
        let (own, inherited) = self.layers_of(tier);
        own.quota.or(inherited.quota)
    }

    fn known_tiers(&self) -> Vec<Arc<str>> {
        let of_file = &self.sources.context.tiers.layers;
        if of_file.is_empty() { &self.tiers } else { of_file }.iter().map(|(name, ..)| name.clone()).collect()
    }

    /// Returns the layers of callers without an exception. Where no quota holds without a tier, they are in the default tier.
    fn base(&mut self) -> Option<OwnAndInherited> {
        if self.quota_of(None).is_some() {
            return Some(self.layers_of(None));
        }
        let known = self.known_tiers();
        let default = self.sources.context.tiers.default.clone().filter(|default| known.contains(default));
        if let Some(default) = default.filter(|default| self.quota_of(Some(default)).is_some()) {
            return Some(self.layers_of(Some(&default)));
        }
        let with_quota: Vec<&str> =
            known.iter().map(|name| &**name).filter(|name| self.quota_of(Some(name)).is_some()).collect();
        let (line, text) = match (with_quota.first(), self.sources.quota) {
            (Some(first), _) => {
                let text = format!(
                    "callers without a known tier would not be limited by this rule; give the descriptor `tier` a `default:` that is a tier with a quota, such as `default: {first}`, or write `quota:` under `defaults`"
                );
                (self.line, text)
            }
            (None, RuleQuota::Inherited { by_tier: Some(line) }) => {
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

    fn by_key(&mut self, base: &OwnAndInherited, keys: &Exceptions) -> HashMap<Box<str>, Option<LimitPolicy>> {
        let varies = self.known_tiers().iter().any(|tier| {
            self.quota_of(Some(tier)).map(|quota| quota.value) != base.0.quota.or(base.1.quota).map(|quota| quota.value)
        });
        let mut by_key = HashMap::new();
        for (key, layer, line) in keys {
            if varies && layer.quota.is_none() {
                let text = "the quota depends on the caller's tier, and an exception for a key does not; write its `quota` here";
                self.reader.refuse(*line, text);
            }
            if let Ok(policy) = self.resolve(&(layer.over(&base.0), base.1.clone()), *line, "") {
                by_key.insert(Box::from(&**key), policy);
            }
        }
        by_key
    }

    /// Resolves layers to a policy. When they make none, the problem is reported once.
    fn resolve(
        &mut self,
        (own, inherited): &OwnAndInherited,
        line: usize,
        prefix: &str,
    ) -> Result<Option<LimitPolicy>, Reported> {
        resolve(own, inherited).map_err(|fault| {
            let problem = (fault.line.unwrap_or(line), fault.text);
            if !self.reported.contains(&problem) {
                self.reader.refuse(problem.0, format!("{prefix}{}", problem.1));
                self.reported.push(problem);
            }
            Reported
        })
    }
}
