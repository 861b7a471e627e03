//! Overrides beside a published file: exceptions of its rules and list entries, each with an end. An operator makes them with
//! `tollgate rules override`, `deny` and `allow`; they are published with the file and stay when it is replaced.

use std::fmt::Write as _;

use serde_json::json;
use tollgate_core::rules::problem::{Problem, Problems};
use tollgate_core::rules::{DescriptorSpec, Matches, TimedEnd, TimedEntry};

use super::exceptions::{Exception, read_end};
use super::patterns::{entry_network, read_matches};
use super::unverified::warn_unverified;
use crate::display;
use crate::yaml::{Fields, YamlReader, scalar};

/// Maximum number of overrides.
pub const OVERRIDES_LEN_MAX: usize = 1_000;
/// Name of the overrides in messages.
const FILE: &str = "overrides";
const FIELDS: [&str; 8] = ["rule", "key", "tier", "deny", "allow", "quota", "until", "reason"];

/// One override as it is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Callers and effect of the override.
    pub effect: OverrideEffect,
    /// End of the override.
    pub end: TimedEnd,
}

/// Callers and effect of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverrideEffect {
    /// Another quota under a rule.
    Quota {
        /// Name of the rule.
        rule: String,
        /// True for a tier, false for a value of the first descriptor of `per`.
        is_tier: bool,
        /// The tier or the value.
        of: String,
        /// Quota such as `100/min`, factor such as `x2`, or `unlimited`.
        quota: String,
    },
    /// Entry of a list: whether it denies, and the values of its descriptors.
    Listed {
        /// True for the deny list, false for the allow list.
        denies: bool,
        /// Names and values. A network such as `10.0.0.0/8` means its addresses.
        values: Vec<(String, String)>,
    },
}

/// Overrides for the parser of the file, each with a mark for whether its rule was found.
#[derive(Default)]
pub(super) struct FileOverrides {
    exceptions: Vec<RuleOverride>,
    pub(super) entries: Vec<TimedEntry>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

pub(super) struct RuleOverride {
    pub(super) rule: String,
    pub(super) is_tier: bool,
    pub(super) exception: Exception,
}

/// Returns overrides as the text that is published with a file.
#[must_use]
pub fn overrides_text(overrides: &[Override]) -> String {
    let mut text = String::new();
    for Override { effect, end } in overrides {
        let mut fields = match effect {
            OverrideEffect::Quota { rule, is_tier, of, quota } => {
                let of_what = if *is_tier { "tier" } else { "key" };
                json!({ "rule": rule, of_what: of, "quota": quota })
            }
            OverrideEffect::Listed { denies, values } => {
                let list = if *denies { "deny" } else { "allow" };
                let pattern = |value: &str| match entry_network(value) {
                    Some(network) => json!({ "cidr": network.to_string() }),
                    None => value.into(),
                };
                let values: serde_json::Map<_, _> =
                    values.iter().map(|(name, value)| (name.clone(), pattern(value))).collect();
                json!({ list: values })
            }
        };
        fields["until"] = display::utc(end.until).into();
        if !end.reason.is_empty() {
            fields["reason"] = (*end.reason).into();
        }
        // JSON is YAML.
        let _ = writeln!(text, "- {fields}");
    }
    text
}

/// Returns the position of an override in the text of [`overrides_text`], by the place of a problem with it.
#[must_use]
pub fn override_at(place: &str) -> Option<usize> {
    let line: usize = place.strip_prefix(FILE)?.strip_prefix(':')?.parse().ok()?;
    line.checked_sub(1)
}

/// Parses the text of [`overrides_text`].
///
/// # Errors
/// If the text has another form.
pub fn read_overrides(text: &str) -> Result<Vec<Override>, Problems> {
    let mut reader = YamlReader::new(FILE);
    let overrides = read_items(&mut reader, text, |reader, fields| {
        let end = read_end(reader, fields)?;
        Some(Override { effect: read_effect(reader, fields)?, end })
    });
    if reader.problems.is_empty() { Ok(overrides) } else { Err(Problems { problems: reader.problems }) }
}

/// Reads overrides for the parser of their file.
pub(super) fn overrides_of_file(text: &str, known: &[DescriptorSpec]) -> FileOverrides {
    let mut reader = YamlReader::new(FILE);
    let mut read = FileOverrides::default();
    read_items(&mut reader, text, |reader, fields| {
        let effect = read_effect(reader, fields)?;
        match effect {
            OverrideEffect::Quota { rule, is_tier, of, .. } => {
                let exception = Exception::read(reader, &of, fields, fields.line());
                read.exceptions.push(RuleOverride { rule, is_tier, exception });
            }
            OverrideEffect::Listed { denies, .. } => {
                let node = fields.get(if denies { "deny" } else { "allow" })?;
                let matches: Matches = read_matches(reader, node, "an override", known);
                for (name, _) in matches.iter().filter(|_| !denies) {
                    warn_unverified(
                        reader,
                        fields.line(),
                        &format!("the allow list rests on `{name}` from"),
                        name,
                        known,
                    );
                }
                let end = read_end(reader, fields)?;
                read.entries.push(TimedEntry { denies, matches, end });
            }
        }
        Some(())
    });
    (read.problems, read.warnings) = (reader.problems, reader.warnings);
    read
}

impl OverrideEffect {
    /// Creates an entry of a list. The order of the values, and the spelling of a network, make no other entry.
    #[must_use]
    pub fn listed(denies: bool, mut values: Vec<(String, String)>) -> Self {
        for (_, value) in &mut values {
            *value = entry_network(value).map_or_else(|| std::mem::take(value), |network| network.to_string());
        }
        values.sort();
        Self::Listed { denies, values }
    }
}

impl RuleOverride {
    /// Returns the place for problems.
    pub(super) fn place(&self) -> String {
        format!("{FILE}:{}", self.exception.line)
    }
}

impl FileOverrides {
    /// Returns the overrides of a rule.
    pub(super) fn of_rule<'a>(&'a self, rule: &'a str) -> impl Iterator<Item = &'a RuleOverride> {
        self.exceptions.iter().filter(move |found| found.rule == rule)
    }

    /// Returns the overrides of rules with other names.
    pub(super) fn of_no_rule<'a>(
        &'a self,
        is_rule: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = &'a RuleOverride> {
        self.exceptions.iter().filter(move |found| !is_rule(&found.rule))
    }
}

/// Reads the items of the list, and refuses more than there may be.
fn read_items<T>(
    reader: &mut YamlReader<'_>,
    text: &str,
    mut read: impl FnMut(&mut YamlReader<'_>, &Fields<'_>) -> Option<T>,
) -> Vec<T> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let Some(document) = reader.document(text) else { return Vec::new() };
    let items = reader.items(&document, "the overrides");
    if items.len() > OVERRIDES_LEN_MAX {
        reader.refuse(1, format!("{} overrides; at most {OVERRIDES_LEN_MAX} are enforced", items.len()));
    }
    let mut all = Vec::new();
    for item in items {
        let fields = reader.fields(item, "an override", &FIELDS);
        if fields.get("until").is_none() {
            reader.refuse(fields.line(), "an override has no `until`");
        }
        all.extend(read(reader, &fields));
    }
    all
}

fn read_effect(reader: &mut YamlReader<'_>, fields: &Fields<'_>) -> Option<OverrideEffect> {
    let list = [("deny", true), ("allow", false)];
    if let Some((node, denies)) = list.iter().find_map(|(name, denies)| Some((fields.get(name)?, *denies))) {
        let entry = reader.mapping(node, "an override");
        let mut values = Vec::new();
        for (name, node) in entry.iter() {
            let network =
                if scalar(node).is_none() { reader.fields(node, "an override", &["cidr"]).get("cidr") } else { None };
            values.extend(scalar(network.unwrap_or(node)).map(|value| (name.to_owned(), value.to_owned())));
        }
        return Some(OverrideEffect::listed(denies, values));
    }
    let of = [("key", false), ("tier", true)];
    let of = of.iter().find_map(|(name, is_tier)| Some((fields.get(name)?, *is_tier)));
    let (Some((node, is_tier)), Some(rule), Some(quota)) = (of, fields.get("rule"), fields.get("quota")) else {
        reader
            .refuse(fields.line(), "an override has a `rule`, a `key` or `tier`, and a `quota`; or `deny`, or `allow`");
        return None;
    };
    let mut text = |node, what| reader.text(node, what).map(str::to_owned);
    let (of, rule, quota) = (text(node, "`key`")?, text(rule, "`rule`")?, text(quota, "`quota`")?);
    Some(OverrideEffect::Quota { rule, is_tier, of, quota })
}
