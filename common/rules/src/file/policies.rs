//! Policies of a rule: the one for all callers, and those for tiers and single keys.
//!
//! Precedence: defaults < the file's tiers < the rule < its `tiers` < its `keys`. Only tiers whose policy differs are
//! kept. The exception of a key starts from the policy for all callers, because the tier of a key is known only when it
//! calls. The merge of two layers is in `settings::layer`.

use std::sync::Arc;

use super::callers::{check_keys, warn_unverified_override};
use super::exceptions::{Exception, read_exceptions};
use super::overrides::RuleOverride;
use super::quota_factor::QuotaFactor;
use super::regions::one_quota;
use super::tiers::FileContext;
use crate::settings::{Layer, Located, WithoutEffect, complete_global, global_defaults, refuse_not_global, resolve};
use crate::yaml::{Fields, YamlReader, line_of};
use tollgate_core::rules::{LimitPolicy, Quota, Rule, Scope, TimedCallers, TimedException};

/// Builder of a rule's policies, which reports each problem once.
struct PolicyBuilder<'a, 'f> {
    reader: &'a mut YamlReader<'f>,
    fields: &'a Fields<'a>,
    context: &'a FileContext,
    own: Layer,
    /// Settings of the file for rules like this one.
    defaults: Layer,
    /// The rule's own exceptions by tier.
    tiers: Vec<Exception>,
    reported: Vec<(usize, String)>,
    without_effect: WithoutEffect,
    /// Remedy after that of a problem.
    remedy: &'static str,
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
    for Exception { name, line, .. } in &tiers {
        if let Some(hint) = context.hint_if_unknown(name) {
            reader.refuse(*line, format!("`{name}` is not under the file's `tiers`; add `{name}: {{}}` there{hint}"));
        }
    }
    // The file's own tiers are checked once, by the file.
    if let Some(node) = fields.get("tiers").filter(|_| context.tiers.is_empty()) {
        context.check_tiers(reader, line_of(node));
    }
    let exceptions = || tiers.iter().chain(&keys).map(|exception| &exception.layer);
    check_unlimited(reader, &own, &exceptions().collect::<Vec<_>>());
    check_keys(reader, fields, &keys, rule, &context.descriptors);
    if !readable {
        return;
    }
    let (own, defaults) = if rule.scope == Scope::Global {
        [&own].into_iter().chain(exceptions()).for_each(|layer| refuse_not_global(reader, layer));
        if reader.problems.len() > before {
            return;
        }
        (complete_global(own, fields.line()), global_defaults(&context.defaults))
    } else {
        (own, context.defaults.clone())
    };
    let (timed, tiers): (Vec<_>, Vec<_>) = tiers.into_iter().partition(|tier| tier.end.is_some());
    let (reported, without_effect) = (Vec::new(), WithoutEffect::default());
    let mut builder =
        PolicyBuilder { reader, fields, context, own, defaults, tiers, reported, without_effect, remedy: "" };
    let Some(base) = builder.base() else { return };
    let policy = builder.resolve(&base, fields.line(), "");
    rule.by_tier = builder.by_tier();
    rule.by_tier.retain(|(_, by_tier)| Ok(*by_tier) != policy);
    builder.add_keys(&base, &keys, rule);
    for tier in &timed {
        builder.add_timed_tier(tier, rule);
    }
    let name = rule.name.clone();
    for known in context.overrides.of_rule(&name) {
        builder.add_override(&base, &keys, known, rule);
    }
    rule.policy = policy.unwrap_or_default();
    builder.without_effect.warn(builder.reader);
}

/// Refuses settings of counting beside `quota: unlimited`. A rule may have them for its tiers or keys that are limited.
fn check_unlimited(reader: &mut YamlReader<'_>, own: &Layer, exceptions: &[&Layer]) {
    let quota = |layer: &Layer| layer.quota.map(|quota| quota.value);
    let limits_some = exceptions.iter().any(|layer| quota(layer).flatten().is_some());
    let rule = (!limits_some).then_some(own);
    for layer in rule.into_iter().chain(exceptions.iter().copied()).filter(|layer| quota(layer) == Some(None)) {
        for (field, line) in layer.without_effect_if_unlimited() {
            reader
                .refuse(line, format!("`quota: unlimited` counts nothing and takes no {field}; remove one of the two"));
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
        let exception = tier.and_then(|tier| self.tiers.iter().find(|known| *known.name == *tier));
        let of_file = tier.and_then(|tier| context.tier(tier));
        let own = exception.map_or_else(|| own.clone(), |exception| exception.layer.over(own));
        (own, of_file.map_or_else(|| defaults.clone(), |layer| layer.over(defaults)))
    }

    fn quota_of(&self, tier: Option<&str>) -> Option<Located<Option<Quota>>> {
        quota(&self.layers_of(tier))
    }

    fn known_tiers(&self) -> Vec<Arc<str>> {
        let of_file = &self.context.tiers;
        if of_file.is_empty() { &self.tiers } else { of_file }.iter().map(|tier| tier.name.clone()).collect()
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
            let exception = self.tiers.iter().find(|known| known.name == name);
            let line = exception.map_or(self.fields.line(), |exception| exception.line);
            let factor = exception.and_then(|exception| exception.factor);
            if self.quota_of(Some(&name)).is_none() {
                let text = format!("tier `{name}` has no quota under this rule; write one for it, or under `defaults`");
                self.reader.refuse(line, text);
                continue;
            }
            let layers = self.scaled(self.layers_of(Some(&name)), factor, line);
            let policy = self.resolve(&layers, line, &format!("tier `{name}`: "));
            by_tier.extend(policy.map(|policy| (name, policy)));
        }
        by_tier
    }

    /// Adds the exceptions of single callers.
    fn add_keys(&mut self, base: &OwnAndInherited, keys: &[Exception], rule: &mut Rule) {
        let value = |quota: Option<Located<Option<Quota>>>| quota.map(|quota| quota.value);
        let differs = |tier: &Arc<str>| value(self.quota_of(Some(tier))) != value(quota(base));
        let varies = self.known_tiers().iter().any(differs) || self.tiers.iter().any(|tier| tier.factor.is_some());
        for key in keys {
            if varies && !key.has_quota() {
                let text = "the quota depends on the caller's tier, and an exception for a key does not; write its `quota` here";
                self.reader.refuse(key.line, text);
            }
            self.add_key(base, None, key, rule);
        }
    }

    /// Adds the exception of one caller, over another one that stands before it. With a factor, it depends on the caller's tier.
    fn add_key(&mut self, base: &OwnAndInherited, before: Option<&Exception>, key: &Exception, rule: &mut Rule) {
        let policy_over = |builder: &mut Self, (own, inherited): OwnAndInherited| {
            let own = before.map_or_else(|| own.clone(), |before| before.layer.over(&own));
            let below = builder.scaled((own, inherited), before.and_then(|before| before.factor), key.line);
            let layers = builder.scaled((key.layer.over(&below.0), below.1), key.factor, key.line);
            builder.resolve(&layers, key.line, "")
        };
        let Ok(policy) = policy_over(self, base.clone()) else { return };
        let mut by_tier = Vec::new();
        if key.factor.is_some() {
            for tier in self.known_tiers() {
                let factor = self.tiers.iter().find(|known| known.name == tier).and_then(|known| known.factor);
                let layers = self.scaled(self.layers_of(Some(&tier)), factor, key.line);
                by_tier
                    .extend(policy_over(self, layers).ok().filter(|of_tier| *of_tier != policy).map(|of| (tier, of)));
            }
        }
        let name: Box<str> = Box::from(&*key.name);
        if let Some(end) = key.end.clone() {
            rule.timed.push(TimedException { callers: TimedCallers::Key(name), policy, by_tier, end });
            return;
        }
        if !by_tier.is_empty() {
            rule.by_key_and_tier.insert(name.clone(), by_tier);
        }
        rule.by_key.insert(name, policy);
    }

    /// Adds an exception of a tier that ends by itself.
    fn add_timed_tier(&mut self, tier: &Exception, rule: &mut Rule) {
        let (name, Some(end)) = (&tier.name, tier.end.clone()) else { return };
        let below = self.tiers.iter().find(|known| known.name == *name).and_then(|known| known.factor);
        let (own, inherited) = self.scaled(self.layers_of(Some(name)), below, tier.line);
        let layers = self.scaled((tier.layer.over(&own), inherited), tier.factor, tier.line);
        if let Ok(policy) = self.resolve(&layers, tier.line, &format!("tier `{name}`: ")) {
            let (callers, by_tier) = (TimedCallers::Tier(name.clone()), Vec::new());
            rule.timed.push(TimedException { callers, policy, by_tier, end });
        }
    }

    /// Adds an override beside the file. Its problems have its own place, not one of the file.
    fn add_override(&mut self, base: &OwnAndInherited, keys: &[Exception], known: &RuleOverride, rule: &mut Rule) {
        let RuleOverride { is_tier, exception, .. } = known;
        let before = (self.reader.problems.len(), self.reader.warnings.len());
        // Another override with the same problem needs a remedy of its own.
        self.reported.clear();
        self.remedy = "; an override takes all but the quota from its rule, so write a quota that goes with these settings, or publish a file with others first";
        warn_unverified_override(self.reader, known, rule, &self.context.descriptors);
        if rule.scope == Scope::Global {
            self.reader.refuse(exception.line, one_quota("some overrides"));
        } else if let Some(hint) = self.context.hint_if_unknown(&exception.name).filter(|_| *is_tier) {
            let text =
                format!("no caller is in the tier `{}`, which is not under the file's `tiers`{hint}", exception.name);
            self.reader.warn(exception.line, text);
        } else if *is_tier {
            self.add_timed_tier(exception, rule);
        } else {
            let of_file = keys.iter().find(|key| key.name == exception.name);
            self.add_key(base, of_file, exception, rule);
        }
        let YamlReader { problems, warnings, .. } = &mut *self.reader;
        for problem in problems[before.0..].iter_mut().chain(&mut warnings[before.1..]) {
            problem.place = known.place();
        }
    }

    /// Returns layers with a multiple of their quota.
    fn scaled(&mut self, layers: OwnAndInherited, factor: Option<QuotaFactor>, line: usize) -> OwnAndInherited {
        let base = quota(&layers).and_then(|quota| quota.value);
        let (Some(factor), Some(base)) = (factor, base) else { return layers };
        let Some(multiple) = factor.of(base) else {
            let text = format!("this multiple of {base} is more than 2^53 - 1 units; write a smaller one");
            self.reader.refuse(line, text);
            return layers;
        };
        let (mut own, inherited) = layers;
        own.quota = Some(Located { value: Some(multiple), line });
        (own, inherited)
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
            self.reader.refuse(fault.0, format!("{prefix}{}{}", fault.1, self.remedy));
            self.reported.push(fault);
        }
        Err(())
    }
}
