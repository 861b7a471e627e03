//! Quota of an exception as a multiple of the quota that holds without it: `x2`, `x1.5`.

use tollgate_core::rules::Quota;

use crate::decimal::parse_decimal;

/// Maximum number of decimals, and of digits before them.
const DIGITS_MAX: usize = 6;

/// Factor of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaFactor {
    digits: u64,
    decimals: u32,
}

impl QuotaFactor {
    /// Returns true if a text is meant as a factor and not as a quota.
    pub(super) fn is_meant(text: &str) -> bool {
        text.strip_prefix('x').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
    }

    /// Parses `x2` or `x0.5`; none for 0, and for more than six digits on a side.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('x')?;
        let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
        let (digits, decimals) = parse_decimal(text)?;
        (digits > 0 && whole.len() <= DIGITS_MAX && rest.len() <= DIGITS_MAX).then_some(Self { digits, decimals })
    }

    /// Returns a multiple of a quota, rounded up to whole units; none if those are more than a quota may have.
    pub(super) fn of(self, quota: Quota) -> Option<Quota> {
        let units = u128::from(quota.units()) * u128::from(self.digits);
        let units = u64::try_from(units.div_ceil(10_u128.pow(self.decimals))).ok()?;
        Quota::new(units, quota.width_ms()).ok()?;
        quota.with_units(units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_multiply_units_and_keep_the_window() {
        let cases = [
            ("x2", "100/min", Some("200/min")),
            ("x0.5", "5/15min", Some("3/15min")),
            ("x1.25", "10MB/s", Some("12500kB/s")),
            ("x0.001", "1/s", Some("1/s")),
            ("x999999", "9007199254740991/d", None),
            ("x0", "1/s", None),
            ("x1234567", "1/s", None),
            ("x.5", "4/s", None),
            ("x-1", "4/s", None),
            ("2", "4/s", None),
        ];
        for (factor, quota, expected) in cases {
            let quota: Quota = quota.parse().expect("a quota");
            let multiple = QuotaFactor::parse(factor).and_then(|factor| factor.of(quota));
            let expected = expected.map(|quota| quota.parse::<Quota>().expect("a quota"));
            let form = |quota: Quota| (quota.units(), quota.width_ms());
            assert_eq!(multiple.map(form), expected.map(form), "{factor}");
        }
        assert!(QuotaFactor::is_meant("x2") && QuotaFactor::is_meant("x.5") && !QuotaFactor::is_meant("unlimited"));
    }
}
