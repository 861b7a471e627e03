//! Parts of the files that apply to their rules, and the checks that callers can be in a tier.

use super::exceptions::Exception;
use super::overrides::FileOverrides;
use super::unverified::{find, warn_unverified};
use crate::hint;
use crate::settings::Layer;
use crate::yaml::YamlReader;
use tollgate_core::regions::RegionFloorRatio;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, Rule, TIER};

pub(super) const NO_TIER: &str = "there is no descriptor `tier`, so only a call that names its tier itself is in one; declare it, such as `tier: { jwt: tier, default: free }`";

/// Parts of the files that apply to every rule, and those of the file whose rules are read.
#[derive(Default)]
pub(super) struct FileContext {
    pub(super) descriptors: Vec<DescriptorSpec>,
    /// Settings of the rules of this file.
    pub(super) defaults: Layer,
    /// Rule of this file with the defaults of a rule itself.
    pub(super) rule_defaults: Rule,
    /// Settings of each tier, below those of the rules.
    pub(super) tiers: Vec<Exception>,
    pub(super) regions: Option<Vec<RegionFloorRatio>>,
    /// Overrides beside the file.
    pub(super) overrides: FileOverrides,
}

impl FileContext {
    pub(super) fn tier(&self, name: &str) -> Option<&Layer> {
        self.tiers.iter().find(|tier| *tier.name == *name).map(|tier| &tier.layer)
    }

    /// Returns the suggestion for a tier that the file's `tiers` lack; none if they have it, or if there are none.
    pub(super) fn hint_if_unknown(&self, tier: &str) -> Option<String> {
        let unknown = !self.tiers.is_empty() && self.tier(tier).is_none();
        unknown.then(|| hint(tier, self.tiers.iter().map(|tier| &*tier.name)))
    }

    /// Returns the tier of callers without one of their own.
    pub(super) fn default_tier(&self) -> Option<&str> {
        let spec = find(&self.descriptors, TIER)?;
        match &spec.source {
            DescriptorSource::Constant(value) => Some(value),
            _ => spec.default.as_deref(),
        }
    }

    /// Warns when no caller can be in a tier: the descriptor `tier` must exist, be verified, and have known values.
    pub(super) fn check_tiers(&self, reader: &mut YamlReader<'_>, line: usize) {
        let Some(spec) = find(&self.descriptors, TIER) else {
            reader.warn(line, NO_TIER);
            return;
        };
        warn_unverified(reader, line, "`tier` rests on", TIER, &self.descriptors);
        let table = if let DescriptorSource::Map { table, .. } = &spec.source { &table[..] } else { &[] };
        for value in table.iter().map(|(_, value)| &**value).chain(self.default_tier()) {
            if let Some(hint) = self.hint_if_unknown(value) {
                let text = format!(
                    "descriptor `tier` may be `{value}`, which is not under `tiers`, so it has no policy of its own{hint}"
                );
                reader.warn(line, text);
            }
        }
    }
}
