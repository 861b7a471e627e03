//! Policies of a rule: the one for all callers, and those for tiers and single keys.
//!
//! Precedence: defaults < the file's tiers < the rule < its `tiers` < its `keys`. Only tiers whose policy differs are
//! kept. The exception of a key starts from the policy for all callers, because the tier of a key is known only when it
//! calls. The merge of two layers is in `settings::layer`.

use std::sync::Arc;

use super::tiers::{Exceptions, FileContext, read_exceptions};
use crate::request_values::warn_unmet_text;
use crate::settings::{Layer, Located, WithoutEffect, complete_global, global_defaults, refuse_not_global, resolve};
use crate::yaml::{Fields, YamlReader, line_of};
use tollgate_core::rules::{DescriptorSpec, LimitPolicy, Quota, Rule, Scope};

/// Builder of a rule's policies, which reports each problem once.
struct PolicyBuilder<'a, 'f> {
    reader: &'a mut YamlReader<'f>,
    fields: &'a Fields<'a>,
    context: &'a FileContext,
    own: Layer,
    /// Settings of the file for rules like this one.
    defaults: Layer,
    /// The rule's own exceptions by tier.
    tiers: Exceptions,
    reported: Vec<(usize, String)>,
    without_effect: WithoutEffect,
}

/// A rule's own settings, and those that it inherits.
type OwnAndInherited = (Layer, Layer);

/// Reads the exceptions of a rule and sets its policies. `before` is the number of problems before the rule's own
/// settings were read. If these settings have problems, their consequences are not reported.
pub(super) fn read_policies(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    context: &FileContext,
    own: Layer,
    before: usize,
    rule: &mut Rule,
) {
    let tiers = read_exceptions(reader, fields.get("tiers"), "`tiers`");
    let keys = read_exceptions(reader, fields.get("keys"), "`keys`");
    let readable = reader.problems.len() == before;
    for (name, _, line) in &tiers {
        if let Some(hint) = context.hint_if_unknown(name) {
            reader.refuse(*line, format!("`{name}` is not under the file's `tiers`; add `{name}: {{}}` there{hint}"));
        }
    }
    // The file's own tiers are checked once, by the file.
    if let Some(node) = fields.get("tiers").filter(|_| context.tiers.is_empty()) {
        context.check_tiers(reader, line_of(node));
    }
    check_unlimited(reader, &own, &tiers, &keys);
    check_keys(reader, fields, &keys, rule, &context.descriptors);
    if !readable {
        return;
    }
    let (own, defaults) = if rule.scope == Scope::Global {
        let exceptions = tiers.iter().chain(&keys).map(|(_, layer, _)| layer);
        [&own].into_iter().chain(exceptions).for_each(|layer| refuse_not_global(reader, layer));
        if reader.problems.len() > before {
            return;
        }
        (complete_global(own, fields.line()), global_defaults(&context.defaults))
    } else {
        (own, context.defaults.clone())
    };
    let (reported, without_effect) = (Vec::new(), WithoutEffect::default());
    let mut builder = PolicyBuilder { reader, fields, context, own, defaults, tiers, reported, without_effect };
    let Some(base) = builder.base() else { return };
    let policy = builder.resolve(&base, fields.line(), "");
    rule.by_tier = builder.by_tier();
    rule.by_tier.retain(|(_, by_tier)| Ok(*by_tier) != policy);
    let value = |quota: Option<Located<Option<Quota>>>| quota.map(|quota| quota.value);
    let differs = |tier: &Arc<str>| value(builder.quota_of(Some(tier))) != value(quota(&base));
    let varies = builder.known_tiers().iter().any(differs);
    for (key, layer, line) in &keys {
        if varies && layer.quota.is_none() {
            let text =
                "the quota depends on the caller's tier, and an exception for a key does not; write its `quota` here";
            builder.reader.refuse(*line, text);
        }
        let policy = builder.resolve(&(layer.over(&base.0), base.1.clone()), *line, "");
        rule.by_key.extend(policy.map(|policy| (Box::from(&**key), policy)));
    }
    rule.policy = policy.unwrap_or_default();
    builder.without_effect.warn(builder.reader);
}

/// Refuses settings of counting beside `quota: unlimited`. A rule may have them for its tiers or keys that are limited.
fn check_unlimited(reader: &mut YamlReader<'_>, own: &Layer, tiers: &Exceptions, keys: &Exceptions) {
    let quota = |layer: &Layer| layer.quota.map(|quota| quota.value);
    let exceptions = || tiers.iter().chain(keys).map(|(_, layer, _)| layer);
    let limits_some = exceptions().any(|layer| quota(layer).flatten().is_some());
    let rule = (!limits_some).then_some(own);
    for layer in rule.into_iter().chain(exceptions()).filter(|layer| quota(layer) == Some(None)) {
        for (field, line) in layer.without_effect_if_unlimited() {
            reader
                .refuse(line, format!("`quota: unlimited` counts nothing and takes no {field}; remove one of the two"));
        }
    }
}

fn check_keys(
    reader: &mut YamlReader<'_>,
    fields: &Fields<'_>,
    keys: &Exceptions,
    rule: &Rule,
    known: &[DescriptorSpec],
) {
    if let Some(node) = fields.get("keys").filter(|_| fields.get("per").is_some() && rule.per.is_empty()) {
        let text = "`keys` are values of the first descriptor of `per`, and there is none; write `per`";
        reader.refuse(line_of(node), text);
    }
    for (_, _, line) in keys.iter().filter(|(key, ..)| key.contains(['*', '?'])) {
        let text =
            "a key is one whole value, not a pattern; make those callers a tier, or write a rule with `match` for them";
        reader.refuse(*line, text);
    }
    for (key, _, line) in keys {
        if let Some(name) = rule.per.first() {
            warn_unmet_text(reader, *line, name, key, known);
        }
    }
}

fn quota((own, inherited): &OwnAndInherited) -> Option<Located<Option<Quota>>> {
    own.quota.or(inherited.quota)
}

impl PolicyBuilder<'_, '_> {
    /// Returns the layers of a caller in this tier, or in none.
    fn layers_of(&self, tier: Option<&str>) -> OwnAndInherited {
        let Self { own, context, defaults, .. } = self;
        let exception = tier.and_then(|tier| self.tiers.iter().find(|(name, ..)| **name == *tier));
        let of_file = tier.and_then(|tier| context.tier(tier));
        let own = exception.map_or_else(|| own.clone(), |(_, layer, _)| layer.over(own));
        (own, of_file.map_or_else(|| defaults.clone(), |layer| layer.over(defaults)))
    }

    fn quota_of(&self, tier: Option<&str>) -> Option<Located<Option<Quota>>> {
        quota(&self.layers_of(tier))
    }

    fn known_tiers(&self) -> Vec<Arc<str>> {
        let of_file = &self.context.tiers;
        if of_file.is_empty() { &self.tiers } else { of_file }.iter().map(|(name, ..)| name.clone()).collect()
    }

    /// Returns the layers of callers without an exception. Where no quota holds without a tier, they are in the default
    /// tier.
    fn base(&mut self) -> Option<OwnAndInherited> {
        if self.quota_of(None).is_some() {
            return Some(self.layers_of(None));
        }
        let mut with_quota = self.known_tiers();
        with_quota.retain(|tier| self.quota_of(Some(tier)).is_some());
        if let Some(default) =
            self.context.default_tier().filter(|default| with_quota.iter().any(|tier| **tier == **default))
        {
            return Some(self.layers_of(Some(default)));
        }
        let (line, text) = match (with_quota.first(), self.fields.get("quota")) {
            (Some(first), _) => {
                let text = format!(
                    "callers without a known tier would not be limited by this rule; give the descriptor `tier` a `default:` that is a tier with a quota, such as `default: {first}`, or write `quota:` under `defaults`"
                );
                (self.fields.line(), text)
            }
            (None, Some(by_tier)) => {
                let text = "`quota: tier`, but no tier has a quota, nor have `defaults`; write one there, or here, such as `quota: 100/min`";
                (line_of(by_tier), text.to_owned())
            }
            (None, None) => {
                let text = "the rule has no `quota`; write one, such as `quota: 100/min`, here, under `defaults`, or for each of the `tiers`";
                (self.fields.line(), text.to_owned())
            }
        };
        self.reader.refuse(line, text);
        None
    }

    fn by_tier(&mut self) -> Vec<(Arc<str>, Option<LimitPolicy>)> {
        let mut by_tier = Vec::new();
        for name in self.known_tiers() {
            let exception = self.tiers.iter().find(|(known, ..)| *known == name);
            let line = exception.map_or(self.fields.line(), |(.., line)| *line);
            if self.quota_of(Some(&name)).is_none() {
                let text = format!("tier `{name}` has no quota under this rule; write one for it, or under `defaults`");
                self.reader.refuse(line, text);
                continue;
            }
            let policy = self.resolve(&self.layers_of(Some(&name)), line, &format!("tier `{name}`: "));
            by_tier.extend(policy.map(|policy| (name, policy)));
        }
        by_tier
    }

    /// Reports the problem once if the layers make no policy.
    fn resolve(
        &mut self,
        (own, inherited): &OwnAndInherited,
        line: usize,
        prefix: &str,
    ) -> Result<Option<LimitPolicy>, ()> {
        let fault = match resolve(own, inherited, line) {
            Ok(policy) => {
                if let Some(policy) = &policy {
                    self.without_effect.note(own, policy);
                }
                return Ok(policy);
            }
            Err(Located { value, line }) => (line, value),
        };
        if !self.reported.contains(&fault) {
            self.reader.refuse(fault.0, format!("{prefix}{}", fault.1));
            self.reported.push(fault);
        }
        Err(())
    }
}
