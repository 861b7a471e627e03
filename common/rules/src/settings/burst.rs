//! `burst` and `burst_multiplier`: the units that pass at once after idleness.

use tollgate_core::rules::{LimitPolicy, Unit, parse_units, show_units};

use super::layer::PolicyEdit;
use crate::yaml::{Node, YamlReader, line_of};

/// Maximum number of decimal places of a multiplier.
const DECIMALS_LEN_MAX: usize = 6;

/// Reads a number of units, `true` (1.2 times the quota) or `false` (the default of the algorithm).
pub(super) fn read_burst(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    match reader.text(node, "`burst`")? {
        "true" => Some(times(12, 10)),
        "false" => Some(PolicyEdit::Default),
        text => match parse_units(text) {
            Ok((0, _)) => {
                reader.refuse(line_of(node), "a burst of 0 would deny every call; write at least 1, or leave it out");
                None
            }
            Ok((units, unit)) => Some(PolicyEdit::change(move |policy| set_units(policy, units, unit))),
            Err(_) => {
                let text = format!(
                    "`burst` is `{text}`; write a number of units, such as 200 or 50MB, or `burst_multiplier: 1.2`"
                );
                reader.refuse(line_of(node), text);
                None
            }
        },
    }
}

/// Reads a decimal multiple of the quota, which is kept exactly.
pub(super) fn read_multiplier(reader: &mut YamlReader<'_>, node: &Node<'_>) -> Option<PolicyEdit> {
    let text = reader.text(node, "`burst_multiplier`")?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_decimal =
        !whole.is_empty() && decimals.len() <= DECIMALS_LEN_MAX && (decimals.is_empty() != text.contains('.'));
    let digits = format!("{whole}{decimals}");
    let plain = is_decimal && digits.bytes().all(|byte| byte.is_ascii_digit());
    let numerator = digits.parse().ok().filter(|numerator: &u64| plain && *numerator > 0);
    if numerator.is_none() {
        reader.refuse(line_of(node), format!("`burst_multiplier` is `{text}`; write a number above 0, such as 1.2"));
    }
    Some(times(numerator?, 10_u64.pow(u32::try_from(decimals.len()).ok()?)))
}

/// Returns the burst of a policy, if it has one.
pub(super) fn burst_text(policy: &LimitPolicy) -> Option<String> {
    (policy.burst > 0).then(|| show_units(policy.burst, policy.quota.unit()))
}

fn set_units(policy: &mut LimitPolicy, units: u64, unit: Unit) -> Result<(), String> {
    if unit != Unit::Calls && unit != policy.quota.unit() {
        let burst = show_units(units, unit);
        return Err(format!("a burst of {burst} is of another unit than {}; write both in the same", policy.quota));
    }
    policy.burst = units;
    Ok(())
}

fn times(numerator: u64, denominator: u64) -> PolicyEdit {
    PolicyEdit::set(move |policy| {
        let units = u128::from(policy.quota.units()) * u128::from(numerator) / u128::from(denominator);
        policy.burst = u64::try_from(units).unwrap_or(u64::MAX).max(1);
    })
}
