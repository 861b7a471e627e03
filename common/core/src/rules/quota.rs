//! Quotas and their text form: `100/min`, `5/15min`, `25/10s`, `10MB/s`.
//!
//! Parser and display stand side by side, because code as well as rules files write quotas as text.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use super::units::{Unit, UnitsError, parse_units, show_units};
use crate::window::WIDTH_MS_MAX;

/// Names of units of time, each with its length in ms. The first name of a length is the one that is shown.
const DURATIONS: [(&[&str], u64); 5] = [
    (&["d", "day", "days"], 86_400_000),
    (&["h", "hr", "hour", "hours"], 3_600_000),
    (&["min", "m", "mins", "minute", "minutes"], 60_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1),
];

/// Maximum number of units: the largest number up to which Redis scripts count exactly.
const UNITS_MAX: u64 = (1 << 53) - 1;

/// Number of units in a window, at least 1 in at most 366 days.
///
/// ```
/// # use tollgate_core::rules::Quota;
/// let quota: Quota = "5/15min".parse()?; // also 100/s, 10k/h, 10MB/s, 2k tokens/d
/// assert_eq!((quota.units(), quota.width_ms()), (5, 900_000));
/// # Ok::<(), tollgate_core::rules::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quota {
    units: NonZeroU64,
    width_ms: NonZeroU64,
    unit: Unit,
}

/// Reason why a text is not a quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// No slash, no number, or an unknown unit of time.
    #[error(
        "`{0}` is not a quota; write N/duration, such as 100/min, 5/15min or 25/10s, with the times ms, s, min, h and d"
    )]
    Form(String),
    /// A unit of time without a fixed length, or of one that another unit says.
    #[error("`{0}`: a window has no calendar; write {1}")]
    Calendar(String, String),
    /// A part of a unit.
    #[error("`{0}`: a quota is a whole number of units; write {1}")]
    Fraction(String, String),
    /// More units than the store counts exactly.
    #[error(
        "`{0}`: a quota is at most 2^53 - 1 (9007199254740991) units, which the store counts exactly; write a smaller one"
    )]
    TooLarge(String),
    /// A number of something unknown.
    #[error(
        "`{0}`: this unit is unknown; write a plain number, or one of calls, tokens, B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"
    )]
    Unit(String),
    /// Zero units would deny every call.
    #[error("a quota of 0 would deny every call; write at least 1, or leave the rule out")]
    Zero,
    /// A window that is too wide or has no width.
    #[error("`{0}`: a window is between 1 ms and 366 days wide")]
    Width(String),
}

impl Quota {
    /// One call per second.
    #[doc(hidden)]
    pub const ONE: Self = Self { units: NonZeroU64::MIN, width_ms: NonZeroU64::new(1_000).unwrap(), unit: Unit::Calls };

    /// Creates a quota of units per milliseconds.
    ///
    /// # Errors
    /// When either is zero, the window is wider than 366 days, or the units are more than the store counts exactly.
    pub fn new(units: u64, width_ms: u64) -> Result<Self, QuotaError> {
        if units > UNITS_MAX {
            return Err(QuotaError::TooLarge(units.to_string()));
        }
        let units = NonZeroU64::new(units).ok_or(QuotaError::Zero)?;
        let width = NonZeroU64::new(width_ms).filter(|width| width.get() <= WIDTH_MS_MAX);
        let width_ms = width.ok_or_else(|| QuotaError::Width(format!("{width_ms}ms")))?;
        Ok(Self { units, width_ms, unit: Unit::Calls })
    }

    /// Returns the quota with another number of units, unless that is 0.
    #[doc(hidden)]
    #[must_use]
    pub fn with_units(self, units: u64) -> Option<Self> {
        NonZeroU64::new(units).map(|units| Self { units, ..self })
    }

    /// Returns the unit.
    #[must_use]
    pub const fn unit(self) -> Unit {
        self.unit
    }

    /// Returns the number of units.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.units.get()
    }

    /// Returns the width of the window, in milliseconds.
    #[must_use]
    pub const fn width_ms(self) -> u64 {
        self.width_ms.get()
    }
}

impl FromStr for Quota {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let form = || QuotaError::Form(text.to_owned());
        let (units, duration) = text.trim().split_once('/').ok_or_else(form)?;
        if let Some(whole) = without_fraction(units, duration) {
            return Err(QuotaError::Fraction(text.to_owned(), whole));
        }
        let (units, unit) = parse_units(units).map_err(|wrong| match wrong {
            UnitsError::Form => form(),
            UnitsError::Unit => QuotaError::Unit(text.to_owned()),
        })?;
        let width_ms = parse_duration_ms(duration.trim()).ok_or_else(|| match in_days(duration) {
            Some(days) => QuotaError::Calendar(text.to_owned(), format!("{units}/{days}")),
            None => form(),
        })?;
        match Self::new(units, width_ms) {
            Err(QuotaError::Width(_)) => Err(QuotaError::Width(text.to_owned())),
            Err(QuotaError::TooLarge(_)) => Err(QuotaError::TooLarge(text.to_owned())),
            result => result.map(|quota| Self { unit, ..quota }),
        }
    }
}

/// Returns the window that is meant by a calendar unit, such as `7d` by `week`.
fn in_days(duration: &str) -> Option<String> {
    let duration = duration.trim();
    let digits = duration.bytes().take_while(u8::is_ascii_digit).count();
    let (count, name) = duration.split_at(digits);
    let count: u64 = if count.is_empty() { 1 } else { count.parse().ok()? };
    let days = match &*name.trim().to_ascii_lowercase() {
        "w" | "week" | "weeks" => 7,
        "mo" | "month" | "months" => 30,
        "y" | "year" | "years" => 365,
        _ => return None,
    };
    Some(format!("{}d", count.checked_mul(days)?))
}

/// Returns the quota in whole units that is meant by a part of a unit, such as `15/10s` by `1.5/s`.
fn without_fraction(units: &str, duration: &str) -> Option<String> {
    let (whole, rest) = units.trim().split_once('.')?;
    let decimals = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (decimals, name) = rest.split_at(decimals);
    let factor = 10u64.checked_pow(u32::try_from(decimals.len()).ok().filter(|len| *len > 0)?)?;
    let units = format!("{whole}{decimals}").parse::<u64>().ok()?;
    let duration = show_duration_ms(parse_duration_ms(duration.trim())?.checked_mul(factor)?);
    Some(format!("{units}{name}/{duration}"))
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = show_units(self.units.get(), self.unit);
        match whole_units(self.width_ms.get()) {
            (1, unit) => write!(f, "{units}/{unit}"),
            (many, unit) => write!(f, "{units}/{many}{unit}"),
        }
    }
}

/// Writes a duration: `10s`, `15min`, `1h`.
#[must_use]
pub fn show_duration_ms(ms: u64) -> String {
    let (count, unit) = whole_units(ms);
    format!("{count}{unit}")
}

/// Returns a duration as a whole number of the largest possible unit.
fn whole_units(ms: u64) -> (u64, &'static str) {
    let whole = DURATIONS.into_iter().find(|(_, unit_ms)| ms.is_multiple_of(*unit_ms));
    let (names, unit_ms) = whole.unwrap_or(DURATIONS[0]);
    (ms / unit_ms, names[0])
}

/// Reads `10s`, `15min`, `min` or `1 hour` as milliseconds; none when the text is not a duration.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let count: u64 = if count.is_empty() { 1 } else { count.parse().ok()? };
    // `M` may stand for a month.
    let unit = Some(unit.trim()).filter(|unit| *unit != "M")?.to_ascii_lowercase();
    let (_, unit_ms) = DURATIONS.into_iter().find(|(names, _)| names.contains(&&*unit))?;
    count.checked_mul(unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_read_as_people_write_them() {
        for (text, units, width_ms, shown) in [
            ("100/min", 100, 60_000, "100/min"),
            ("5/15min", 5, 900_000, "5/15min"),
            ("25/10s", 25, 10_000, "25/10s"),
            ("1_000 / 1 hour", 1_000, 3_600_000, "1000/h"),
            ("7/1500ms", 7, 1_500, "7/1500ms"),
            ("10MB/s", 10_000_000, 1_000, "10MB/s"),
            ("1_500 KiB/s", 1_536_000, 1_000, "1500KiB/s"),
            ("10k tokens/min", 10_000, 60_000, "10000 tokens/min"),
            ("2k/h", 2_000, 3_600_000, "2000/h"),
            ("1,000/min", 1_000, 60_000, "1000/min"),
            ("12,345,678 B/s", 12_345_678, 1_000, "12345678B/s"),
            ("9007199254740991/d", 9_007_199_254_740_991, 86_400_000, "9007199254740991/d"),
        ] {
            let quota: Quota = text.parse().unwrap();
            assert_eq!((quota.units(), quota.width_ms(), quota.to_string().as_str()), (units, width_ms, shown));
        }
    }

    #[test]
    fn a_text_that_is_no_quota_is_refused_with_a_remedy() {
        for (text, error) in [
            ("100", QuotaError::Form("100".into())),
            ("100/fortnight", QuotaError::Form("100/fortnight".into())),
            ("-1/min", QuotaError::Form("-1/min".into())),
            ("10Mb/s", QuotaError::Unit("10Mb/s".into())),
            ("99999999TB/s", QuotaError::Form("99999999TB/s".into())),
            ("0/min", QuotaError::Zero),
            ("5/0s", QuotaError::Width("5/0s".into())),
            ("5/999d", QuotaError::Width("5/999d".into())),
            ("100/1M", QuotaError::Form("100/1M".into())),
            ("1,00/min", QuotaError::Unit("1,00/min".into())),
            ("100/week", QuotaError::Calendar("100/week".into(), "100/7d".into())),
            ("10k/2 months", QuotaError::Calendar("10k/2 months".into(), "10000/60d".into())),
            ("1.5/s", QuotaError::Fraction("1.5/s".into(), "15/10s".into())),
            ("0.25MB/min", QuotaError::Fraction("0.25MB/min".into(), "25MB/100min".into())),
            ("9007199254740992/d", QuotaError::TooLarge("9007199254740992/d".into())),
            ("9008TB/s", QuotaError::TooLarge("9008TB/s".into())),
        ] {
            assert_eq!(text.parse::<Quota>(), Err(error.clone()), "{text}");
            if let QuotaError::Calendar(_, remedy) | QuotaError::Fraction(_, remedy) = error {
                assert!(remedy.parse::<Quota>().is_ok(), "{text}: {remedy}");
            }
        }
    }
}
