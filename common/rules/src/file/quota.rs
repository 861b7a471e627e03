//! `quota:` of a rule: a quota, that of the tier, none, or one that the call brings.

use std::sync::Arc;

use super::settings::{Allowed, Said, read_allowed};
use super::tiers::{UNVERIFIED, claimed};
use super::warn_unknown;
use crate::yaml::{Fields, Known, Reader, line_of, scalar};
use tollgate_core::rules::DescriptorSpec;
use tollgate_core::rules::Quota;

const QUOTA: Known = Known { what: "`quota`", fields: &["from", "default"], not_yet: &[] };

/// What a rule asks.
pub(super) enum Asked {
    /// Nothing of its own, or `tier`, which says so in words: the tier's, else that of the defaults.
    Inherited {
        /// The line of `quota: tier`.
        by_tier: Option<usize>,
    },
    /// A quota, or `unlimited`.
    Plain(Said<Allowed>),
    /// The quota that a descriptor holds, else this one.
    From(Arc<str>, Said<Allowed>),
    /// Something that cannot be read.
    Unreadable,
}

impl Asked {
    /// What is the rule's own.
    pub(super) fn own(&self) -> Option<Said<Allowed>> {
        match self {
            Self::Plain(said) | Self::From(_, said) => Some(*said),
            Self::Inherited { .. } | Self::Unreadable => None,
        }
    }
}

pub(super) fn read_quota(reader: &mut Reader<'_>, fields: &Fields<'_>, known: &[DescriptorSpec]) -> Asked {
    let Some(node) = fields.get("quota") else {
        return Asked::Inherited { by_tier: None };
    };
    let line = line_of(node);
    match scalar(node) {
        Some("tier") => return Asked::Inherited { by_tier: Some(line) },
        Some(_) => return read_allowed(reader, node).map_or(Asked::Unreadable, Asked::Plain),
        None => {}
    }
    let before = reader.problems.len();
    let from = reader.fields(node, &QUOTA);
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
        return Asked::Unreadable;
    };
    warn_unknown(reader, line, name, known);
    let spec = known.iter().find(|spec| *spec.name == *name);
    if let Some(source) = spec.and_then(|spec| claimed(spec, known)) {
        reader.warn(line, format!("this quota comes from {source}; {UNVERIFIED}"));
    }
    Asked::From(name.into(), Said { value: Allowed::UpTo(default), line })
}
