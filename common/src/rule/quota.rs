//! Quotas as people write them: `100/min`, `5/15min`, `25/10s`.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use crate::window::WIDTH_MS_MAX;

const UNITS_MS: [(&str, u64); 20] = [
    ("ms", 1),
    ("millisecond", 1),
    ("milliseconds", 1),
    ("s", 1_000),
    ("sec", 1_000),
    ("secs", 1_000),
    ("second", 1_000),
    ("seconds", 1_000),
    ("m", 60_000),
    ("min", 60_000),
    ("mins", 60_000),
    ("minute", 60_000),
    ("minutes", 60_000),
    ("h", 3_600_000),
    ("hr", 3_600_000),
    ("hour", 3_600_000),
    ("hours", 3_600_000),
    ("d", 86_400_000),
    ("day", 86_400_000),
    ("days", 86_400_000),
];

/// So many units in a window of so many milliseconds; neither is zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    units: NonZeroU64,
    width_ms: NonZeroU64,
}

/// Why a text is not a quota.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaError {
    /// No slash, no number, or an unknown unit of time.
    #[error("`{0}` is not a quota; write N/duration, such as 100/min, 5/15min or 25/10s")]
    Form(String),
    /// A number of something that is not counted yet.
    #[error("`{0}`: quotas in units other than calls are not yet supported; write a plain number, such as 100/min")]
    Unit(String),
    /// Zero units would deny every call.
    #[error("a quota of 0 would deny every call; write at least 1, or leave the rule out")]
    Zero,
    /// A window that is too wide or has no width.
    #[error("`{0}`: a window is between 1 ms and 24 days wide")]
    Width(String),
}

impl Quota {
    /// So many units in so many milliseconds.
    ///
    /// # Errors
    /// When either is zero, or the window is wider than 24 days.
    pub fn new(units: u64, width_ms: u64) -> Result<Self, QuotaError> {
        let units = NonZeroU64::new(units).ok_or(QuotaError::Zero)?;
        let width = NonZeroU64::new(width_ms).filter(|width| width.get() <= WIDTH_MS_MAX);
        Ok(Self { units, width_ms: width.ok_or_else(|| QuotaError::Width(format!("{width_ms}ms")))? })
    }

    /// How many.
    #[must_use]
    pub const fn units(self) -> u64 {
        self.units.get()
    }

    /// In how many milliseconds.
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
        let units = units.trim().replace('_', "");
        let digits = units.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(form());
        }
        if digits < units.len() {
            return Err(QuotaError::Unit(text.to_owned()));
        }
        let width_ms = parse_duration_ms(duration.trim()).ok_or_else(form)?;
        match Self::new(units.parse().map_err(|_| form())?, width_ms) {
            Err(QuotaError::Width(_)) => Err(QuotaError::Width(text.to_owned())),
            result => result,
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width_ms = self.width_ms.get();
        let (unit, unit_ms) = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1)]
            .into_iter()
            .find(|(_, unit_ms)| width_ms.is_multiple_of(*unit_ms))
            .unwrap_or(("ms", 1));
        match width_ms / unit_ms {
            1 => write!(f, "{}/{unit}", self.units),
            many => write!(f, "{}/{many}{unit}", self.units),
        }
    }
}

impl fmt::Debug for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads `10s`, `15min`, `min`, `1 hour`; milliseconds, or nothing when it is not a duration.
#[must_use]
pub fn parse_duration_ms(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let count: u64 = if count.is_empty() { 1 } else { count.parse().ok()? };
    let unit = unit.trim().to_ascii_lowercase();
    let (_, unit_ms) = UNITS_MS.into_iter().find(|(name, _)| *name == unit)?;
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
        ] {
            let quota: Quota = text.parse().unwrap();
            assert_eq!((quota.units(), quota.width_ms(), quota.to_string().as_str()), (units, width_ms, shown));
        }
    }

    #[test]
    fn what_is_no_quota_is_refused_with_a_remedy() {
        for (text, error) in [
            ("100", QuotaError::Form("100".into())),
            ("100/fortnight", QuotaError::Form("100/fortnight".into())),
            ("-1/min", QuotaError::Form("-1/min".into())),
            ("10MB/s", QuotaError::Unit("10MB/s".into())),
            ("0/min", QuotaError::Zero),
            ("5/0s", QuotaError::Width("5/0s".into())),
            ("5/99d", QuotaError::Width("5/99d".into())),
        ] {
            assert_eq!(text.parse::<Quota>(), Err(error));
        }
    }
}
