//! `quota:` of a rule: a quota, `tier`, `unlimited`, or one that a descriptor of the call holds.

use std::sync::Arc;

use super::tiers::{UNVERIFIED, unverified_source};
use crate::settings::{Located, QuotaValue, read_quota_value, warn_undeclared};
use crate::yaml::{Fields, KnownFields, YamlReader, line_of, scalar};
use tollgate_core::rules::{DescriptorSpec, Quota};

const QUOTA_FROM: KnownFields = KnownFields { what: "`quota`", fields: &["from", "default"], planned: &[] };

/// Value of `quota:` under a rule.
pub(super) enum RuleQuota {
    /// None, or `tier`: the quota of the tier, else that of `defaults`.
    Inherited {
        /// Line of `quota: tier`.
        by_tier: Option<usize>,
    },
    /// A quota, or `unlimited`.
    Plain(Located<QuotaValue>),
    /// The quota that a descriptor holds, with a default.
    From(Arc<str>, Located<QuotaValue>),
    /// A value that cannot be read.
    Unreadable,
}

impl RuleQuota {
    /// Returns the quota that the rule itself has.
    pub(super) fn own(&self) -> Option<Located<QuotaValue>> {
        match self {
            Self::Plain(quota) | Self::From(_, quota) => Some(*quota),
            Self::Inherited { .. } | Self::Unreadable => None,
        }
    }
}

pub(super) fn read_quota(reader: &mut YamlReader<'_>, fields: &Fields<'_>, known: &[DescriptorSpec]) -> RuleQuota {
    let Some(node) = fields.get("quota") else {
        return RuleQuota::Inherited { by_tier: None };
    };
    let line = line_of(node);
    match scalar(node) {
        Some("tier") => return RuleQuota::Inherited { by_tier: Some(line) },
        Some(_) => return read_quota_value(reader, node).map_or(RuleQuota::Unreadable, RuleQuota::Plain),
        None => {}
    }
    let before = reader.problems.len();
    let from = reader.fields(node, &QUOTA_FROM);
    let name = from.get("from").and_then(|node| reader.text(node, "`from`"));
    let default = from.get("default").and_then(|node| {
        let text = reader.text(node, "`default`")?;
        text.parse::<Quota>().map_err(|error| reader.refuse(line_of(node), format!("{error}"))).ok()
    });
    let (Some(name), Some(default)) = (name, default) else {
        if reader.problems.len() == before {
            let text = "a quota that a call brings needs both, such as { from: limit, default: 100/min }";
            reader.refuse(line, text);
        }
        return RuleQuota::Unreadable;
    };
    warn_undeclared(reader, line, name, known);
    let spec = known.iter().find(|spec| *spec.name == *name);
    if let Some(source) = spec.and_then(|spec| unverified_source(spec, known)) {
        reader.warn(line, format!("this quota comes from {source}; {UNVERIFIED}"));
    }
    RuleQuota::From(name.into(), Located { value: QuotaValue::UpTo(default), line })
}
