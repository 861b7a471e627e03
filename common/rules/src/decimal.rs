//! Decimal numbers as text, which are kept exactly.

/// Parses `1.67` as its digits, 167, and the number of decimals, 2.
pub(crate) fn parse_decimal(text: &str) -> Option<(u64, u32)> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{decimals}");
    let plain = !whole.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((digits.parse().ok().filter(|_| plain)?, u32::try_from(decimals.len()).ok()?))
}
