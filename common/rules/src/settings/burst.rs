//! `burst` and `burst_multiplier`: the units that pass at once after idleness.

use serde_json::{Value, json};
use tollgate_core::rules::{Unit, parse_units, show_units};

use super::policy_edit::PolicyEdit;
use crate::decimal::parse_decimal;
use crate::yaml::{Node, YamlReader, line_of};

/// Maximum number of decimal places of a multiplier.
const DECIMALS_MAX: u32 = 6;

/// Reads a number of units, `true` (1.2 times the quota) or `false` (the default of the algorithm).
pub(super) fn read_burst(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    match reader.text(node, "`burst`")? {
        "true" => return Some(times(12, 10)),
        "false" => return Some(PolicyEdit::Default),
        _ => {}
    }
    let form = "a number of units, such as 200 or 50MB, or `burst_multiplier: 1.2`";
    let (units, unit) = reader.parse_by(node, "`burst`", form, |text| parse_units(text).ok())?;
    if units == 0 {
        reader.refuse(line_of(node), "a burst of 0 would deny every call; write at least 1, or leave it out");
    }
    Some(PolicyEdit::change(move |policy| {
        if unit != Unit::Calls && unit != policy.quota.unit() {
            let burst = show_units(units, unit);
            return Err(format!("a burst of {burst} is of another unit than {}; write both in the same", policy.quota));
        }
        policy.burst = units;
        Ok(())
    }))
}

/// Reads a decimal multiple of the quota, which is kept exactly.
pub(super) fn read_multiplier(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let parse = |text: &str| {
        let in_range = |(digits, decimals): &(u64, u32)| *digits > 0 && *decimals <= DECIMALS_MAX;
        parse_decimal(text).filter(in_range).filter(|_| !text.ends_with('.'))
    };
    let (digits, decimals) = reader.parse_by(node, "`burst_multiplier`", "a number above 0, such as 1.2", parse)?;
    Some(times(digits, 10_u64.pow(decimals)))
}

pub(super) fn multiplier_form() -> Value {
    let decimal = format!(r"^[0-9]+(\.[0-9]{{1,{DECIMALS_MAX}}})?$");
    json!({ "type": ["number", "string"], "exclusiveMinimum": 0, "pattern": decimal })
}

fn times(numerator: u64, denominator: u64) -> PolicyEdit {
    PolicyEdit::set(move |policy| {
        let units = u128::from(policy.quota.units()) * u128::from(numerator) / u128::from(denominator);
        policy.burst = u64::try_from(units).unwrap_or(u64::MAX).max(1);
    })
}
