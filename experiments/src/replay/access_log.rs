//! One line of an access log in the common or combined format of Apache and nginx:
//! `ip ident user [time] "METHOD path protocol" status bytes "referer" "user agent"`.

use std::borrow::Cow;

use jiff::Timestamp as Instant;
use jiff::fmt::strtime;

/// The parts of a line that matter; `-` reads as absent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub(super) ip: &'a str,
    pub(super) user: Option<&'a str>,
    pub(super) time_ms: u64,
    pub(super) method: &'a str,
    /// Path and query, as logged.
    pub(super) path: &'a str,
    pub(super) status: &'a str,
    pub(super) user_agent: Option<Cow<'a, str>>,
}

/// Reads times; neighbouring lines mostly have the same.
#[derive(Debug, Default)]
pub(super) struct Times {
    text: String,
    time_ms: u64,
}

impl Times {
    fn parse(&mut self, text: &str) -> Option<u64> {
        if self.text != text {
            self.time_ms = parse_time(text)?;
            text.clone_into(&mut self.text);
        }
        Some(self.time_ms)
    }
}

/// Reads a line; what is missing, if it is none.
pub(super) fn parse<'l>(line: &'l str, times: &mut Times) -> Result<Line<'l>, &'static str> {
    let (ip, rest) = line.split_once(' ').ok_or("not an access log line and not JSON")?;
    let (_ident, rest) = rest.split_once(' ').ok_or("no user")?;
    let (user, rest) = rest.split_once(" [").ok_or("no time in brackets")?;
    let (time, rest) = rest.split_once("] ").ok_or("no time in brackets")?;
    let time_ms = times.parse(time).ok_or("the time is not like 17/May/2015:10:05:03 +0000")?;
    let (request, rest) = quoted(rest).ok_or("no request in quotes")?;
    let mut words = request.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method.is_empty() || path.is_empty() {
        return Err("the request is not like \"GET /path HTTP/1.1\"");
    }
    let mut rest = rest.trim_start();
    let status = rest.split(' ').next().unwrap_or_default();
    if status.len() != 3 || !status.bytes().all(|b| b.is_ascii_digit()) {
        return Err("no status of three digits after the request");
    }
    // The second quoted text from here, if there are two, is the user agent.
    rest = rest.find('"').map_or("", |at| &rest[at..]);
    let user_agent = quoted(rest).and_then(|(_, rest)| quoted(rest.trim_start())).map(|(text, _)| unescape(text));
    Ok(Line {
        ip,
        user: present(user),
        time_ms,
        method,
        path,
        status,
        user_agent: user_agent.filter(|text| !text.is_empty() && text != "-"),
    })
}

fn parse_time(time: &str) -> Option<u64> {
    let instant: Instant = strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?.to_timestamp().ok()?;
    u64::try_from(instant.as_millisecond()).ok()
}

/// The text between quotes, and what follows it. A backslash keeps a quote inside.
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

fn present(text: &str) -> Option<&str> {
    (text != "-" && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_combined_line_gives_its_parts() {
        let line = r#"10.0.0.1 - ann [17/May/2015:12:05:03 +0200] "GET /a?b=1 HTTP/1.1" 200 203 "http://x/\"q\"" "Mo\"z (X; Y)""#;
        let read = parse(line, &mut Times::default()).unwrap();
        assert_eq!(
            (read.ip, read.user, read.method, read.path, read.status),
            ("10.0.0.1", Some("ann"), "GET", "/a?b=1", "200")
        );
        assert_eq!(read.time_ms, 1_431_857_103_000);
        assert_eq!(read.user_agent.as_deref(), Some("Mo\"z (X; Y)"));
    }

    #[test]
    fn a_common_line_has_no_user_agent() {
        let read =
            parse(r#"::1 - - [01/Jan/2024:00:00:00 +0000] "POST / HTTP/1.0" 404 -"#, &mut Times::default()).unwrap();
        assert_eq!((read.user, read.user_agent, read.status), (None, None, "404"));
    }

    #[test]
    fn a_bad_line_says_what_is_missing() {
        for (line, why) in [
            ("", "not an access log line and not JSON"),
            ("1.1.1.1 - - \"GET / HTTP/1.1\" 200", "no time in brackets"),
            ("1.1.1.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1", "the time is not like 17/May/2015:10:05:03 +0000"),
            ("1.1.1.1 - - [17/May/2015:12:05:03 +0200] GET 200", "no request in quotes"),
            ("1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"-\" 408 0", "the request is not like \"GET /path HTTP/1.1\""),
            (
                "1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" ok 0",
                "no status of three digits after the request",
            ),
        ] {
            assert_eq!(parse(line, &mut Times::default()), Err(why), "{line}");
        }
    }
}
