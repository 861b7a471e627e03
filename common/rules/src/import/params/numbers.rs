//! Conversion of `params` to a quota, from a rate per second or a limit per window.
//!
//! A `refill_rate` usually has two decimals: 1.67 a second stands for 100 a minute and not for 100.2. The units of a window
//! are therefore rounded when the difference is within the precision of two decimals, which is 0.005 times the seconds of the
//! window. Otherwise the quota is exact, over the smallest number of windows with whole units: 1.67 with a window of one second
//! is 167 in 100 s. All arithmetic is in integers.

use crate::yaml::{Fields, KnownFields, Node, YamlReader, line_of};
use tollgate_core::window::WIDTH_MS_MAX;

/// Window of a bucket without `window`, in seconds; it is for headers only.
const BUCKET_WINDOW_S_DEFAULT: u64 = 60;
/// Maximum width of a window, in seconds.
const WINDOW_S_MAX: u64 = WIDTH_MS_MAX / 1_000;
/// Maximum number of digits of a rate; more would overflow.
const DIGITS_LEN_MAX: usize = 15;

const BUCKET: KnownFields =
    KnownFields { what: "the params of a bucket", fields: &["capacity", "refill_rate", "window"], planned: &[] };
const WINDOW: KnownFields = KnownFields { what: "the params of a window", fields: &["limit", "window"], planned: &[] };

/// Content of `params`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ParamNumbers {
    units: ParamUnits,
    window_s: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ParamUnits {
    Limit(u64),
    Bucket { capacity: u64, rate: RefillRate },
}

/// Rate of `digits` / 10^`decimals` units per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RefillRate {
    digits: u64,
    decimals: u32,
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
    let fields = reader.fields(node, if bucket { &BUCKET } else { &WINDOW });
    let default = bucket.then_some(BUCKET_WINDOW_S_DEFAULT);
    let window_s = read_count(reader, &fields, "window", rule.map(|rule| rule.window_s).or(default));
    let units = if bucket {
        let inherited = match rule.map(|rule| &rule.units) {
            Some(ParamUnits::Bucket { capacity, rate }) => Some((*capacity, *rate)),
            _ => None,
        };
        let capacity = read_count(reader, &fields, "capacity", inherited.map(|(capacity, _)| capacity));
        let rate = read_rate(reader, &fields, inherited.map(|(_, rate)| rate));
        capacity.zip(rate).map(|(capacity, rate)| ParamUnits::Bucket { capacity, rate })
    } else {
        let inherited = match rule.map(|rule| &rule.units) {
            Some(ParamUnits::Limit(limit)) => Some(*limit),
            _ => None,
        };
        read_count(reader, &fields, "limit", inherited).map(ParamUnits::Limit)
    };
    let numbers = ParamNumbers { units: units?, window_s: window_s? };
    if numbers.quota().1 > WINDOW_S_MAX {
        let text = format!("the window is wider than {} days; write a narrower one", WINDOW_S_MAX / 86_400);
        reader.refuse(fields.line(), text);
    }
    (reader.problems.len() == before).then_some(numbers)
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
        return None;
    }
    Some(count)
}

fn read_rate(reader: &mut YamlReader<'_>, fields: &Fields<'_>, inherited: Option<RefillRate>) -> Option<RefillRate> {
    let Some(node) = fields.get("refill_rate") else {
        if inherited.is_none() {
            reader.refuse(fields.line(), "there is no `refill_rate`; write how many units come back in a second");
        }
        return inherited;
    };
    let text = reader.text(node, "`refill_rate`")?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let plain = !whole.is_empty() && digits.len() <= DIGITS_LEN_MAX && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(digits) if plain && digits > 0 => Some(RefillRate { digits, decimals: u32::try_from(fraction.len()).ok()? }),
        _ => {
            reader.refuse(line_of(node), format!("`refill_rate` is `{text}`; write units per second, such as 1.67"));
            None
        }
    }
}

impl ParamNumbers {
    /// Returns the equivalent settings, as `name: value`.
    pub(super) fn settings(&self) -> Vec<String> {
        let (units, seconds) = self.quota();
        let mut settings = vec![format!("quota: {units}/{}", duration(seconds))];
        if let ParamUnits::Bucket { capacity, .. } = self.units {
            settings.push(format!("burst: {capacity}"));
        }
        settings
    }

    /// Returns the quota as units and seconds.
    fn quota(&self) -> (u128, u64) {
        let window = u128::from(self.window_s);
        let rate = match &self.units {
            ParamUnits::Limit(limit) => return (u128::from(*limit), self.window_s),
            ParamUnits::Bucket { rate, .. } => rate,
        };
        // One unit has `scale` parts.
        let scale = 10_u128.pow(rate.decimals);
        let parts = u128::from(rate.digits).saturating_mul(window);
        let rounded = (parts + scale / 2) / scale;
        let difference = parts.abs_diff(rounded * scale);
        if rounded > 0 && difference.saturating_mul(200) <= window.saturating_mul(scale) {
            return (rounded, self.window_s);
        }
        let windows = scale / gcd(parts, scale);
        (parts * windows / scale, u64::try_from(window * windows).unwrap_or(u64::MAX))
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn duration(seconds: u64) -> String {
    let units = [("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
    let (unit, length) = units.into_iter().find(|(_, length)| seconds.is_multiple_of(*length)).unwrap_or(("s", 1));
    match seconds / length {
        1 => unit.to_owned(),
        many => format!("{many}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ParamNumbers, ParamUnits, RefillRate};

    fn settings(digits: u64, decimals: u32, window_s: u64) -> String {
        let units = ParamUnits::Bucket { capacity: 9, rate: RefillRate { digits, decimals } };
        ParamNumbers { units, window_s }.settings().join(" ")
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
