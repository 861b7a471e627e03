//! Quotas and their text form: `100/min`, `5/15min`, `25/10s`, `10MB/s`.
//!
//! Parser and display stand side by side, because code as well as rules files write quotas as text.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::window::WIDTH_MS_MAX;

/// Names of units of time, each with its length in ms. The first name of a length is the one that is shown.
const DURATIONS: [(&[&str], u64); 5] = [
    (&["d", "day", "days"], 86_400_000),
    (&["h", "hr", "hour", "hours"], 3_600_000),
    (&["min", "m", "mins", "minute", "minutes"], 60_000),
    (&["s", "sec", "secs", "second", "seconds"], 1_000),
    (&["ms", "millisecond", "milliseconds"], 1),
];

/// Names of units, each with its multiple of the base unit. The first name of a multiple is the one that is shown.
const SCALES: [(&[&str], Unit, u64); 14] = [
    (&["", "call", "calls", "request", "requests"], Unit::Calls, 1),
    (&["k"], Unit::Calls, 1_000),
    (&["M"], Unit::Calls, 1_000_000),
    (&["G"], Unit::Calls, 1_000_000_000),
    (&["tokens", "token"], Unit::Tokens, 1),
    (&["B", "bytes"], Unit::Bytes, 1),
    (&["kB", "KB"], Unit::Bytes, 1_000),
    (&["KiB"], Unit::Bytes, 1 << 10),
    (&["MB"], Unit::Bytes, 1_000_000),
    (&["MiB"], Unit::Bytes, 1 << 20),
    (&["GB"], Unit::Bytes, 1_000_000_000),
    (&["GiB"], Unit::Bytes, 1 << 30),
    (&["TB"], Unit::Bytes, 1_000_000_000_000),
    (&["TiB"], Unit::Bytes, 1 << 40),
];

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

/// Unit of a quota. It is for display only: the cost of a call is in the unit of the rules that apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Calls, or the cost of a call.
    #[default]
    Calls,
    /// Bytes.
    Bytes,
    /// Tokens of a language model.
    Tokens,
}

/// Reason why a text is not a quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaError {
    /// No slash, no number, or an unknown unit of time.
    #[error("`{0}` is not a quota; write N/duration, such as 100/min, 5/15min or 25/10s")]
    Form(String),
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
    /// When either is zero, or the window is wider than 366 days.
    pub fn new(units: u64, width_ms: u64) -> Result<Self, QuotaError> {
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
        let (units, unit) = parse_units(units).map_err(|wrong| match wrong {
            UnitsError::Form => form(),
            UnitsError::Unit => QuotaError::Unit(text.to_owned()),
        })?;
        let width_ms = parse_duration_ms(duration.trim()).ok_or_else(form)?;
        match Self::new(units, width_ms) {
            Err(QuotaError::Width(_)) => Err(QuotaError::Width(text.to_owned())),
            result => result.map(|quota| Self { unit, ..quota }),
        }
    }
}

/// Reason why a text is not a number of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitsError {
    /// The text does not begin with a number, or the number is too large.
    Form,
    /// The unit after the number is unknown.
    Unit,
}

/// Reads `100`, `10k`, `10MB`, `5 tokens`.
///
/// # Errors
/// When the text has no number, or an unknown unit.
pub fn parse_units(text: &str) -> Result<(u64, Unit), UnitsError> {
    let text = text.trim().replace('_', "");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, name) = text.split_at(digits);
    let count: u64 = count.parse().map_err(|_| UnitsError::Form)?;
    let name = name.trim();
    let find = |wanted: &str| SCALES.into_iter().find(|(names, ..)| names.contains(&wanted));
    // `10k tokens`: thousands of something that is not bytes.
    let scaled = || {
        let (factor, of) = name.split_once(' ')?;
        let (_, _, factor) = find(factor).filter(|(_, unit, scale)| *unit == Unit::Calls && *scale > 1)?;
        let (names, unit, one) = find(of.trim()).filter(|(_, unit, one)| *unit != Unit::Bytes && *one == 1)?;
        Some((names, unit, factor * one))
    };
    let (_, unit, scale) = find(name).or_else(scaled).ok_or(UnitsError::Unit)?;
    Ok((count.checked_mul(scale).ok_or(UnitsError::Form)?, unit))
}

/// Writes a number of units: `50MB`, `100`, `10000 tokens`.
#[must_use]
pub fn show_units(units: u64, unit: Unit) -> String {
    match unit {
        Unit::Calls => units.to_string(),
        Unit::Tokens => format!("{units} tokens"),
        Unit::Bytes => {
            let whole = |of: Unit, scale: u64| of == Unit::Bytes && units.is_multiple_of(scale);
            let largest = SCALES.into_iter().rfind(|(_, of, scale)| whole(*of, *scale));
            let (names, _, scale) = largest.unwrap_or(SCALES[0]);
            format!("{}{}", units / scale, names[0])
        }
    }
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
    let unit = unit.trim().to_ascii_lowercase();
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
        ] {
            assert_eq!(text.parse::<Quota>(), Err(error));
        }
    }
}
