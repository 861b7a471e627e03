//! One line of an access log in the common or combined format of Apache and nginx:
//! `ip ident user [time] "METHOD path protocol" status bytes "referer" "user agent"`.

use std::borrow::Cow;
use std::net::IpAddr;

use jiff::Timestamp as Instant;
use jiff::fmt::strtime;

/// Relevant parts of a line; `-` is absent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AccessLogLine<'a> {
    pub(super) ip: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) time_ms: u64,
    /// Method, and path with query as logged; `None` if the client sent no valid request.
    pub(super) request: Option<(&'a str, &'a str)>,
    pub(super) status: &'a str,
    pub(super) user_agent: Option<Cow<'a, str>>,
}

/// Fails with the part that is missing.
pub(super) fn parse(line: &str) -> Result<AccessLogLine<'_>, &'static str> {
    let (ip, rest) = line.split_once(' ').ok_or("not an access log line and not JSON")?;
    let (ident, rest) = rest.split_once(' ').ok_or("no user")?;
    // The format vhost_combined begins with the server's name.
    let (ip, rest) = match rest.split_once(' ') {
        Some((_, after)) if ident.parse::<IpAddr>().is_ok() => (ident, after),
        _ => (ip, rest),
    };
    let (user, rest) = rest.split_once(" [").ok_or("no time in brackets")?;
    let (time, rest) = rest.split_once("] ").ok_or("no time in brackets")?;
    let time_ms = parse_time(time).ok_or("the time is not like 17/May/2015:10:05:03 +0000")?;
    let (request, rest) = quoted(rest).ok_or("no request in quotes")?;
    let (method, path) = request.split_once(' ').unwrap_or_default();
    let is_method = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_alphabetic());
    let request = is_method.then(|| (method, path.split(' ').next().unwrap_or_default()));
    let mut rest = rest.trim_start();
    let status = rest.split(' ').next().unwrap_or_default();
    if status.len() != 3 || !status.bytes().all(|b| b.is_ascii_digit()) {
        return Err("no status of three digits after the request");
    }
    // The second quoted text after the status, if there are two, is the user agent.
    rest = rest.find('"').map_or("", |at| &rest[at..]);
    let user_agent = quoted(rest).and_then(|(_, rest)| quoted(rest.trim_start())).map(|(text, _)| unescape(text));
    Ok(AccessLogLine {
        ip,
        user: (user != "-" && !user.is_empty()).then_some(user),
        time_ms,
        request,
        status,
        user_agent: user_agent.filter(|text| !text.is_empty() && text != "-"),
    })
}

fn parse_time(time: &str) -> Option<u64> {
    let instant: Instant = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?.to_timestamp().ok()?;
    u64::try_from(instant.as_millisecond()).ok()
}

/// Splits off the text between quotes. A backslash escapes a quote.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return Some((&inner[..at], &inner[at + 1..])),
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

fn unescape(text: &str) -> Cow<'_, str> {
    if text.contains('\\') { Cow::Owned(text.replace("\\\"", "\"").replace("\\\\", "\\")) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combined_line_gives_its_parts() {
        let line = r#"10.0.0.1 - ann [17/May/2015:12:05:03 +0200] "GET /a?b=1 HTTP/1.1" 200 203 "http://x/\"q\"" "Mo\"z (X; Y)""#;
        let read = parse(line).unwrap();
        assert_eq!(
            (read.ip, read.user, read.request, read.status),
            ("10.0.0.1", Some("ann"), Some(("GET", "/a?b=1")), "200")
        );
        assert_eq!(read.time_ms, 1_431_857_103_000);
        assert_eq!(read.user_agent.as_deref(), Some("Mo\"z (X; Y)"));
    }

    #[test]
    fn a_common_line_has_no_user_agent() {
        let read = parse(r#"::1 - - [01/Jan/2024:00:00:00 +0000] "POST / HTTP/1.0" 404 -"#).unwrap();
        assert_eq!((read.user, read.user_agent, read.status), (None, None, "404"));
    }

    /// A time-out or a TLS handshake on a plain port is a call of that client, too.
    #[test]
    fn a_line_without_a_readable_request_still_counts() {
        for request in ["-", r"\x16\x03\x01", "", "GET"] {
            let line = format!(r#"1.1.1.1 - - [17/May/2015:12:05:03 +0200] "{request}" 408 0"#);
            let read = parse(&line).map(|line| (line.request, line.status.to_owned()));
            assert_eq!(read, Ok((None, "408".to_owned())), "{request}");
        }
    }

    #[test]
    fn a_line_that_begins_with_the_server_is_understood() {
        let line = r#"example.com:443 10.0.0.7 - ann [17/May/2015:12:05:03 +0200] "GET / HTTP/1.1" 200 1"#;
        let read = parse(line).unwrap();
        assert_eq!((read.ip, read.user), ("10.0.0.7", Some("ann")));
    }

    #[test]
    fn the_reason_names_the_missing_part_of_a_bad_line() {
        for (line, why) in [
            ("", "not an access log line and not JSON"),
            ("1.1.1.1 - - \"GET / HTTP/1.1\" 200", "no time in brackets"),
            ("1.1.1.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1", "the time is not like 17/May/2015:10:05:03 +0000"),
            ("1.1.1.1 - - [17/May/2015:12:05:03 +0200] GET 200", "no request in quotes"),
            (
                "1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" ok 0",
                "no status of three digits after the request",
            ),
        ] {
            assert_eq!(parse(line), Err(why), "{line}");
        }
    }
}
