//! Exceptions of a rule by tier or key: their settings, and the end of those that end by themselves.

use std::sync::Arc;

use serde_json::Value;
use tollgate_core::rules::TimedEnd;

use super::quota_factor::QuotaFactor;
use crate::display::parse_utc;
use crate::schema::pattern;
use crate::settings::{Layer, Level};
use crate::yaml::{Fields, Node, YamlReader, line_of, scalar};

/// Maximum number of characters of a reason.
const REASON_LEN_MAX: usize = 500;

/// Settings by tier or key.
pub(super) struct Exception {
    pub(super) name: Arc<str>,
    pub(super) layer: Layer,
    /// Quota as a multiple of the one without the exception; the layer has no quota then.
    pub(super) factor: Option<QuotaFactor>,
    /// End, if the exception ends by itself.
    pub(super) end: Option<TimedEnd>,
    pub(super) line: usize,
}

/// Returns the schema of an exception.
pub(super) fn schema() -> Value {
    let mut schema = Level::Exception.schema();
    if let Some(forms) = schema["properties"]["quota"]["anyOf"].as_array_mut() {
        forms.push(pattern(r"x[0-9]+(\.[0-9]*)?"));
    }
    schema
}

impl Exception {
    /// Reads the settings, the quota, `until` and `reason`.
    pub(super) fn read(reader: &mut YamlReader<'_>, name: &str, fields: &Fields<'_>, line: usize) -> Self {
        let factor_node = fields.get("quota").filter(|node| scalar(node).is_some_and(QuotaFactor::is_meant));
        let factor = factor_node.and_then(|node| {
            reader.parse_by(
                node,
                "`quota`",
                "a quota such as 100/min, or a factor such as x2 or x0.5, from x0.000001 to x999999.999999",
                QuotaFactor::parse,
            )
        });
        let layer =
            if factor_node.is_some() { Layer::read(reader, fields, None) } else { Layer::read_level(reader, fields) };
        Self { name: name.into(), layer, factor, end: read_end(reader, fields), line }
    }

    /// Returns true if the exception has a quota of its own.
    pub(super) fn has_quota(&self) -> bool {
        self.factor.is_some() || self.layer.quota.is_some()
    }
}

/// Reads `name: settings` lines.
pub(super) fn read_exceptions(reader: &mut YamlReader<'_>, node: Option<&Node<'_>>, what: &str) -> Vec<Exception> {
    let Some(node) = node else { return Vec::new() };
    let entries: Vec<_> = reader.mapping(node, what).iter().collect();
    read_named(reader, &entries)
}

/// Reads settings with their names.
pub(super) fn read_named(reader: &mut YamlReader<'_>, entries: &[(&str, &Node<'_>)]) -> Vec<Exception> {
    let read = |(name, node): &(&str, &Node<'_>)| {
        let fields = Level::Exception.read(reader, node);
        Exception::read(reader, name, &fields, line_of(node))
    };
    entries.iter().map(read).collect()
}

/// Reads `until` and `reason`. A reason alone is a comment.
pub(super) fn read_end(reader: &mut YamlReader<'_>, fields: &Fields<'_>) -> Option<TimedEnd> {
    let short = |text: &str| (text.chars().count() <= REASON_LEN_MAX).then(|| text.into());
    let reason = fields.get("reason");
    let reason = reason.and_then(|node| reader.parse_by(node, "`reason`", "at most 500 characters", short));
    let until = fields.get("until")?;
    let until = reader.parse_by(until, "`until`", "a time with its zone, such as 2026-12-01T12:00:00Z", |text| {
        parse_utc(text).ok()
    })?;
    Some(TimedEnd { until, reason: reason.unwrap_or_else(|| "".into()) })
}
