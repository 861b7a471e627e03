//! Conversion of `params` to a quota, from a rate per second or a limit per window.
//!
//! A `refill_rate` usually has two decimals: 1.67 a second stands for 100 a minute and not for 100.2. The units of a
//! window are therefore rounded when the difference is within the precision of two decimals, which is 0.005 times the
//! seconds of the window. Otherwise the quota is exact, over the smallest number of windows with whole units: 1.67 with
//! a window of one second is 167 in 100 s. All arithmetic is in integers.

use crate::decimal::parse_decimal;
use crate::yaml::{Fields, Node, YamlReader, line_of};
use tollgate_core::rules::Quota;
use tollgate_core::window::WIDTH_MS_MAX;

/// Window of a bucket without `window`, in seconds; it is for headers only.
const BUCKET_WINDOW_S_DEFAULT: u64 = 60;
const WINDOW_DAYS_MAX: u64 = WIDTH_MS_MAX / 86_400_000;
/// Maximum number of decimals and of all digits of a rate; more would overflow.
const DIGITS_LEN_MAX: u32 = 15;

/// Content of `params`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParamNumbers {
    /// The `limit`, or the `capacity` of a bucket.
    units: u64,
    /// Digits and number of decimals of the `refill_rate` of a bucket, in units per second.
    rate: Option<(u64, u32)>,
    window_s: u64,
    quota: Quota,
}

/// Reads `params`, or those of an override, which inherits the absent ones.
pub(super) fn read_numbers(
    reader: &mut YamlReader<'_>,
    node: &Node<'_>,
    algorithm: &str,
    rule: Option<&ParamNumbers>,
) -> Option<ParamNumbers> {
    let before = reader.problems.len();
    let bucket = matches!(algorithm, "token_bucket" | "leaky_bucket");
    let (what, known) = if bucket {
        ("the params of a bucket", &["capacity", "refill_rate", "window"][..])
    } else {
        ("the params of a window", &["limit", "window"][..])
    };
    let fields = reader.fields(node, what, known);
    let default = bucket.then_some(BUCKET_WINDOW_S_DEFAULT);
    let window_s = read_count(reader, &fields, "window", rule.map(|rule| rule.window_s).or(default));
    let units = read_count(reader, &fields, known[0], rule.map(|rule| rule.units));
    let rate = if bucket { read_rate(reader, &fields, rule.and_then(|rule| rule.rate)) } else { None };
    let (units, window_s) = units.zip(window_s)?;
    let Some(quota) = quota(units, rate, window_s) else {
        reader.refuse(fields.line(), format!("the window is wider than {WINDOW_DAYS_MAX} days; write a narrower one"));
        return None;
    };
    (reader.problems.len() == before).then_some(ParamNumbers { units, rate, window_s, quota })
}

fn read_count(reader: &mut YamlReader<'_>, fields: &Fields<'_>, name: &str, inherited: Option<u64>) -> Option<u64> {
    let Some(node) = fields.get(name) else {
        if inherited.is_none() {
            reader.refuse(fields.line(), format!("there is no `{name}`; write it, as a whole number"));
        }
        return inherited;
    };
    let what = format!("`{name}`");
    let count: u64 = reader.parse(node, &what, "a whole number, at least 1")?;
    if count == 0 {
        reader.refuse(line_of(node), format!("{what} is 0; write at least 1 (`blacklist` denies every call of a key)"));
    }
    Some(count).filter(|count| *count > 0)
}

fn read_rate(reader: &mut YamlReader<'_>, fields: &Fields<'_>, inherited: Option<(u64, u32)>) -> Option<(u64, u32)> {
    let Some(node) = fields.get("refill_rate") else {
        if inherited.is_none() {
            reader.refuse(fields.line(), "there is no `refill_rate`; write how many units come back in a second");
        }
        return inherited;
    };
    let in_range = |(digits, decimals): &(u64, u32)| {
        (1..10_u64.pow(DIGITS_LEN_MAX)).contains(digits) && *decimals <= DIGITS_LEN_MAX
    };
    reader
        .parse_by(node, "`refill_rate`", "units per second, such as 1.67", |text| parse_decimal(text).filter(in_range))
}

impl ParamNumbers {
    /// Returns the equivalent settings, as `name: value`.
    pub(super) fn settings(&self) -> Vec<String> {
        let burst = self.rate.map(|_| format!("burst: {}", self.units));
        std::iter::once(format!("quota: {}", self.quota)).chain(burst).collect()
    }
}

/// Returns the equivalent quota; none if its window would be too wide.
fn quota(units: u64, rate: Option<(u64, u32)>, window_s: u64) -> Option<Quota> {
    let of = |units: u128, windows: u128| {
        let width_ms = u128::from(window_s) * windows * 1_000;
        Quota::new(u64::try_from(units).unwrap_or(u64::MAX), u64::try_from(width_ms).ok()?).ok()
    };
    let Some((digits, decimals)) = rate else { return of(units.into(), 1) };
    // One unit has `scale` parts.
    let scale = 10_u128.pow(decimals);
    let parts = u128::from(digits) * u128::from(window_s);
    let rounded = (parts + scale / 2) / scale;
    let difference = parts.abs_diff(rounded * scale);
    if rounded > 0 && difference.saturating_mul(200) <= u128::from(window_s) * scale {
        return of(rounded, 1);
    }
    let divisor = gcd(parts, scale);
    of(parts / divisor, scale / divisor)
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::quota;

    fn settings(digits: u64, decimals: u32, window_s: u64) -> String {
        let quota = quota(9, Some((digits, decimals)), window_s).expect("in range");
        super::ParamNumbers { units: 9, rate: Some((digits, decimals)), window_s, quota }.settings().join(" ")
    }

    #[test]
    fn a_rate_is_rounded_as_far_as_two_decimals_go() {
        assert_eq!(settings(167, 2, 60), "quota: 100/min burst: 9", "100.2");
        assert_eq!(settings(1667, 2, 60), "quota: 1000/min burst: 9", "1000.2");
        assert_eq!(settings(166, 2, 60), "quota: 498/5min burst: 9", "99.6 is further from 100 than 0.3");
        assert_eq!(settings(167, 2, 1), "quota: 167/100s burst: 9");
        assert_eq!(settings(5, 1, 1), "quota: 1/2s burst: 9");
        assert_eq!(settings(1, 2, 60), "quota: 3/5min burst: 9", "0.6 a minute is not rounded away");
        assert_eq!(settings(2, 0, 3_600), "quota: 7200/h burst: 9");
        assert_eq!(settings(3, 3, 60), "quota: 9/50min burst: 9");
    }
}
