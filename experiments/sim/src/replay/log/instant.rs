//! Times of logs: the form of Apache and nginx, ISO 8601, and numbers of seconds, ms, µs or ns since 1970.
//!
//! A time without a zone is read as UTC. A time before 1970 or after 2099 is refused, because such a time is a mistake of the
//! clock or of the unit, and a fleet would be simulated up to it.

use jiff::Timestamp as Instant;
use jiff::civil::DateTime;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

/// First instant of the year 2100, in ms since 1970.
const TIME_MS_END: u64 = 4_102_444_800_000;
/// Smallest number since 1970 that is read as seconds, ms, µs and ns: an instant in 1973. The next unit begins at a thousand times it.
const SECONDS_MIN: u64 = 100_000_000;
/// Length of the text of a time, in bytes, at most.
const TEXT_LEN_MAX: usize = 64;
const FORMS_OF_APACHE: [&str; 3] = ["%d/%b/%Y:%H:%M:%S%.f %z", "%d/%b/%Y:%H:%M:%S%.f %:z", "%d/%b/%Y:%H:%M:%S%.fZ"];
const FORM_OF_HAPROXY: &str = "%d/%b/%Y:%H:%M:%S%.f";

/// Parses a time in any known form, in ms since 1970.
pub(super) fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    if text.len() > TEXT_LEN_MAX || !text.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') { of_number(text) } else { of_text(text) }
}

/// Parses a time that has a date and a time of day.
pub(super) fn of_text(text: &str) -> Option<u64> {
    if text.as_bytes().get(2) == Some(&b'/') { of_apache(text) } else { of_iso(text) }
}

/// Parses a number, whose size tells its unit: `1731948900`, `1731948900.27`, `1731948900270` and so on.
pub(super) fn of_number(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let ms = match whole {
        ..SECONDS_MIN => return None,
        SECONDS_MIN..100_000_000_000 => {
            let thousandths: String = fraction.chars().chain("000".chars()).take(3).collect();
            whole * 1_000 + thousandths.parse::<u64>().ok()?
        }
        100_000_000_000..100_000_000_000_000 => whole,
        100_000_000_000_000..100_000_000_000_000_000 => whole / 1_000,
        _ => whole / 1_000_000,
    };
    within(ms)
}

/// Returns a time if it is before the year 2100.
pub(super) fn within(ms: u64) -> Option<u64> {
    (ms < TIME_MS_END).then_some(ms)
}

fn of_apache(text: &str) -> Option<u64> {
    let with_zone = |form: &&str| {
        let parsed = strtime::parse(form, text).ok()?;
        if form.ends_with('Z') { utc(parsed.to_datetime().ok()?) } else { parsed.to_timestamp().ok() }
    };
    let instant = FORMS_OF_APACHE.iter().find_map(with_zone);
    let instant = instant.or_else(|| utc(strtime::parse(FORM_OF_HAPROXY, text).ok()?.to_datetime().ok()?));
    within(u64::try_from(instant?.as_millisecond()).ok()?)
}

fn of_iso(text: &str) -> Option<u64> {
    // The form of Go and of nginx's messages is `2024/11/18 16:55:00`.
    let dashed;
    let text = match text.as_bytes() {
        [_, _, _, _, b'/', _, _, b'/', ..] => {
            dashed = text.replace('/', "-");
            &dashed
        }
        _ => text,
    };
    let is_date_and_time = text.len() >= "2024-11-18T16:55".len() && text.as_bytes().get(4) == Some(&b'-');
    let instant = || text.parse::<Instant>().ok().or_else(|| utc(text.parse::<DateTime>().ok()?));
    within(u64::try_from(is_date_and_time.then(instant)??.as_millisecond()).ok()?)
}

fn utc(at: DateTime) -> Option<Instant> {
    at.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_a_time_is_read() {
        const AT: u64 = 1_731_948_900_000;
        for (text, expected) in [
            ("18/Nov/2024:16:55:00 +0000", AT),
            ("18/Nov/2024:22:25:00 +0530", AT),
            ("18/Nov/2024:08:55:00.250 -08:00", AT + 250),
            ("18/Nov/2024:16:55:00.482", AT + 482),
            ("18/Nov/2024:16:55:00Z", AT),
            ("[18/Nov/2024:16:55:00 +0000]", AT),
            ("2024-11-18T16:55:00Z", AT),
            ("2024-11-18T16:55:00.74181707Z", AT + 741),
            ("2024-11-18T17:55:00+01:00", AT),
            ("2024-11-18T17:55:00+0100", AT),
            ("2024-11-18 16:55:00", AT),
            ("2024-11-18 16:55:00,123", AT + 123),
            ("2024-11-18T16:55:00.123", AT + 123),
            ("2024/11/18 16:55:00", AT),
            ("1731948900", AT),
            ("1731948900.27", AT + 270),
            ("1731948900.123456", AT + 123),
            ("1731948900123", AT + 123),
            ("1731948900123.5", AT + 123),
            ("1731948900123456", AT + 123),
            ("1731948900123456789", AT + 123),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_and_a_time_that_cannot_be_are_refused() {
        for text in [
            "",
            "-",
            "noon",
            "10.0.0.1",
            "17",
            "18446744073709551615",
            "99999999999999999999999",
            "5000000000",
            "2024-11-18",
            "16:55:00",
            "9999-11-18T16:55:00Z",
            "1969-11-18T16:55:00Z",
            "32/Nov/2024:16:55:00 +0000",
            "2024-13-18T16:55:00Z",
            "-1731948900",
            "1731948900.2.7",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
