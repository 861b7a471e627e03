//! Parts of a quota as text: a percentage with at most four decimals, kept in millionths.

/// Returns a percentage in millionths.
pub(crate) fn parse_percent(text: &str) -> Option<u32> {
    let number = text.strip_suffix('%')?.trim_end();
    let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 4 {
        return None;
    }
    let ppm = whole.parse::<u32>().ok()?.checked_mul(10_000)?.checked_add(format!("{decimals:0<4}").parse().ok()?)?;
    (ppm <= 1_000_000).then_some(ppm)
}

/// Returns millionths as a percentage.
#[must_use]
pub fn percent_text(ppm: u32) -> String {
    let text = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_read_as_it_is_shown() {
        for (text, ppm) in [("5%", 50_000), ("0%", 0), ("100%", 1_000_000), ("0.0001%", 1), ("2.5%", 25_000)] {
            assert_eq!((parse_percent(text), percent_text(ppm)), (Some(ppm), text.to_owned()), "{text}");
        }
        for text in ["5", "%", "-5%", "101%", "100.0001%", "0.00001%", "5.%", ".5%", "1e2%", "5 percent", "+5%"] {
            assert_eq!(parse_percent(text), None, "{text}");
        }
    }
}
