//! `deny: true`: a rule that denies what it matches and counts nothing.

use crate::yaml::{Fields, Reader, line_of};
use tollgate_core::rules::Matches;

/// What only makes sense for a rule that limits.
const LIMITING: [&str; 11] = [
    "per",
    "quota",
    "tiers",
    "keys",
    "algorithm",
    "burst",
    "burst_multiplier",
    "cost",
    "costs",
    "charge",
    "consistency",
];

/// Refuses a rule that does not say whom it denies, or says what it cannot mean.
pub(super) fn check_denying(reader: &mut Reader<'_>, fields: &Fields<'_>, matches: &Matches) {
    if matches.iter().all(|(_, pattern)| pattern.is_everything()) {
        reader.refuse(fields.line(), "the rule would deny every call; say in `match` which ones are meant");
    }
    for (field, node) in LIMITING.iter().filter_map(|field| Some((field, fields.get(field)?))) {
        let text = format!("a rule with `deny: true` counts nothing and takes no `{field}`; remove one of the two");
        reader.refuse(line_of(node), text);
    }
}
