//! Part of the calls that is sampled, as flags name it.

use tollgate_engine::ADMISSIONS_ALL;

/// Parses a part in percent, such as `1%`. Returns it in parts of [`ADMISSIONS_ALL`].
pub(crate) fn sampled_part(text: &str) -> Result<u32, &'static str> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10,000")]
    let parts = percent.map(|percent| (percent, (percent / 100.0 * f64::from(ADMISSIONS_ALL)).round() as u32));
    let parts = parts.filter(|(percent, parts)| *parts > 0 || *percent == 0.0);
    parts
        .map(|(_, parts)| parts)
        .ok_or("write a part of the calls in percent, such as 1% or 0.05%, at least 0.01% or 0%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_calls_is_parsed() {
        let cases = [("0%", Some(0)), ("0.05%", Some(5)), ("1%", Some(100)), ("100%", Some(ADMISSIONS_ALL))];
        for (text, parts) in cases {
            assert_eq!(sampled_part(text).ok(), parts, "{text}");
        }
        assert!(["1", "101%", "-1%", "%", "NaN%", "0.004%"].into_iter().all(|text| sampled_part(text).is_err()));
    }
}
