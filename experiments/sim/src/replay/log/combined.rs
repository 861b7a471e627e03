//! Common and combined format of Apache, nginx and Traefik: `address ident user [time] "request" status bytes "referer" "user agent"`.
//!
//! Servers are often configured with a few fields more: the server's name or a list of proxies before the address, the address again
//! in brackets (an ingress of Kubernetes), `X-Forwarded-For` or timings at the end. A user may contain any character, so the time is
//! the first text in brackets that is a time and has a request behind it.

use tollgate_core::one_line::excerpt;

use super::address;
use super::instant;
use super::log_call::{AddressKind, LogCall};
use super::request_target::RequestTarget;
use super::token::{LogToken, is_absent, quoted, tokens, unescape};

/// Names of the addresses at the beginning of a line, in order.
const ADDRESSES: [&str; 3] = ["first", "second", "third"];
/// Names of the lists in quotes at the end of a line, in order. The first is taken for that of the proxies.
const LISTS: [(&str, AddressKind); 3] = [
    ("x_forwarded_for", AddressKind::Forwarded),
    ("second_list", AddressKind::Header),
    ("third_list", AddressKind::Header),
];
const BLANKS: [char; 2] = [' ', '\t'];

pub(super) fn parse(line: &str) -> Result<LogCall<'_>, String> {
    let (head, time_ms, rest) = split_at_time(line)?;
    let mut call = LogCall { time_ms, ..LogCall::default() };
    parse_head(head, &mut call)?;
    let (request, rest) = quoted(rest).ok_or("no request in quotes")?;
    call.request = RequestTarget::of_line(request);
    parse_tail(rest, &mut call)?;
    Ok(call)
}

/// Splits a line into the part before its time, the time, and the request with all behind it.
pub(super) fn split_at_time(line: &str) -> Result<(&str, u64, &str), String> {
    let mut reason = "no time in brackets".to_owned();
    for (at, _) in line.match_indices('[') {
        let Some((text, rest)) = line[at + 1..].split_once(']') else { break };
        let rest = rest.trim_start();
        match instant::parse(text) {
            Some(time_ms) if rest.starts_with('"') => return Ok((&line[..at], time_ms, rest)),
            Some(_) => "no request in quotes".clone_into(&mut reason),
            None if reason.starts_with("no time") => {
                reason = format!("the time `{}` is not like 17/May/2015:10:05:03 +0000", excerpt(text));
            }
            None => {}
        }
    }
    Err(reason)
}

/// Reads `[server] address [address …] ident user`.
fn parse_head<'a>(head: &'a str, call: &mut LogCall<'a>) -> Result<(), String> {
    let mut rest = head.trim();
    let next = |rest: &mut &'a str| {
        let (token, after) = rest.split_once(BLANKS).unwrap_or((rest, ""));
        *rest = after.trim_start();
        token
    };
    let second = rest.split(BLANKS).nth(1).unwrap_or_default();
    let first = rest.split(BLANKS).next().unwrap_or_default();
    // The format vhost_combined begins with the server's name.
    if !is_address(first) && !address::is_unknown(first) && is_server(first) && is_address(second) {
        call.add_address(AddressKind::Other, "server", next(&mut rest));
    }
    // A list of proxies has spaces, and may be in quotes.
    for (number, name) in ADDRESSES.into_iter().enumerate() {
        if let Some((list, after)) = quoted(rest).filter(|(list, _)| address::ip_list(list).is_some()) {
            call.add_address(AddressKind::Client, name, list);
            rest = after.trim_start();
            continue;
        }
        let token = rest.split(BLANKS).next().unwrap_or_default();
        if number > 0 && !is_address(token) {
            break;
        }
        let from = rest;
        let mut last = next(&mut rest);
        while last.ends_with(',') && !rest.is_empty() {
            last = next(&mut rest);
        }
        call.add_address(AddressKind::Client, name, from[..from.len() - rest.len()].trim().trim_matches(['"', ',']));
    }
    // An ingress repeats the address, or the list of proxies, in brackets.
    if let Some((list, after)) = rest.strip_prefix("- [").and_then(|rest| rest.split_once(']'))
        && (address::ip_list(list).is_some() || address::is_unknown(list))
    {
        call.add_address(AddressKind::Forwarded, "x_forwarded_for", list);
        rest = after.trim_start();
    } else if let Some((ident, user)) = rest.split_once(BLANKS) {
        // A tag such as `nginx:` shows that a prefix stands before the line, so the first address may be that of another machine.
        let is_prefixed = ident.ends_with(':') || call.addresses.iter().all(|field| !is_address(&field.text));
        if !is_absent(ident) && is_prefixed {
            return Err(format!("`{}` before the time begins with no address", excerpt(head.trim())));
        }
        rest = user;
    } else {
        rest = "";
    }
    let mut user = rest.trim_start();
    while let Some(rest) = user.strip_prefix("- ").or_else(|| user.strip_prefix("-\t")) {
        // Another field stands before the user.
        user = rest.trim_start();
    }
    if address::ip_list(user).is_some() {
        // A list of proxies in place of the user.
        call.add_address(AddressKind::Client, "user", user);
    } else if user.split(BLANKS).any(|part| is_address(part.trim_matches(['[', ']', ',']))) {
        return Err(format!("`{}` before the time has an address in place of the user", excerpt(head.trim())));
    } else {
        call.user = (!is_absent(user)).then(|| unescape(user));
    }
    Ok(())
}

/// Reads `status bytes "referer" "user agent"`, and a list of proxies in quotes behind them.
fn parse_tail<'a>(rest: &'a str, call: &mut LogCall<'a>) -> Result<(), String> {
    let mut tokens = tokens(rest);
    let status = tokens.next().map_or("", |token| token.text);
    if !is_absent(status) && (status.len() != 3 || !status.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err("no status of three digits after the request".to_owned());
    }
    call.status = (!is_absent(status)).then(|| status.into());
    let mut quoted = tokens.filter(|token| token.is_quoted).skip(1);
    call.user_agent = quoted.next().and_then(LogToken::value);
    // Without an address before it, the list may be that of the servers behind.
    let is_known = call.addresses.iter().any(|field| field.kind == AddressKind::Client);
    // A client may have put anything before the address that a proxy has added.
    let lists = quoted.filter(|token| token.text.split(',').any(|part| address::ip(part).is_some()));
    for (list, (name, kind)) in lists.zip(LISTS) {
        call.add_address(if is_known { kind } else { AddressKind::Other }, name, list.text);
    }
    Ok(())
}

fn is_address(token: &str) -> bool {
    address::ip(token.trim_matches(['"', ','])).is_some()
}

fn is_server(token: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:*[]".contains(&byte);
    !token.is_empty() && token.bytes().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const TAIL: &str = r#""GET /a HTTP/1.1" 200 1 "-" "x""#;

    /// Returns the addresses of a line as text, and its user.
    fn head_of(head: &str) -> Result<(String, Option<String>), String> {
        let line = format!("{head} [18/Nov/2024:16:55:01 +0000] {TAIL}");
        let call = parse(&line)?;
        let field = |field: &super::super::log_call::AddressField<'_>| format!("{}={}", field.name, field.text);
        let addresses: Vec<_> = call.addresses.iter().map(field).collect();
        Ok((addresses.join(" "), call.user.map(Cow::into_owned)))
    }

    #[test]
    fn a_combined_line_gives_its_parts() {
        let line = r#"10.0.0.1 - ann [17/May/2015:12:05:03 +0200] "GET /a?b=1 HTTP/1.1" 200 203 "http://x/\"q\"" "Mo\"z (X; Y)""#;
        let read = parse(line).unwrap();
        assert_eq!((read.time_ms, read.status.as_deref()), (1_431_857_103_000, Some("200")));
        assert_eq!(read.user_agent.as_deref(), Some("Mo\"z (X; Y)"));
        assert_eq!(read.request, RequestTarget::of_line("GET /a?b=1 HTTP/1.1"));
        let common = parse(r#"::1 - - [01/Jan/2024:00:00:00 +0000] "POST / HTTP/1.0" 404 -"#).unwrap();
        assert_eq!((common.user, common.user_agent, common.status.as_deref()), (None, None, Some("404")));
    }

    #[test]
    fn each_form_of_the_addresses_and_the_user_is_read() {
        for (head, addresses, user) in [
            ("203.0.113.7 - -", "first=203.0.113.7", None),
            ("203.0.113.7 - \"\"", "first=203.0.113.7", None),
            ("203.0.113.7 - ann", "first=203.0.113.7", Some("ann")),
            ("203.0.113.7 - john smith", "first=203.0.113.7", Some("john smith")),
            (r#"203.0.113.7 - \"car5941 \""#, "first=203.0.113.7", Some("\"car5941 \"")),
            ("203.0.113.7 - ops [oncall]", "first=203.0.113.7", Some("ops [oncall]")),
            ("203.0.113.7 - a]b[", "first=203.0.113.7", Some("a]b[")),
            (
                "203.0.113.7 - a [18/Nov/2024:16:55:09 +0000] b",
                "first=203.0.113.7",
                Some("a [18/Nov/2024:16:55:09 +0000] b"),
            ),
            ("203.0.113.7\t-\tann", "first=203.0.113.7", Some("ann")),
            ("203.0.113.7 example.com - ann", "first=203.0.113.7", Some("ann")),
            ("203.0.113.7 example.com - -", "first=203.0.113.7", None),
            ("203.0.113.7 ident ann", "first=203.0.113.7", Some("ann")),
            ("203.0.113.7 -", "first=203.0.113.7", None),
            ("203.0.113.7", "first=203.0.113.7", None),
            ("203.0.113.7:5000 - -", "first=203.0.113.7:5000", None),
            ("[2001:db8::1]:5000 - -", "first=[2001:db8::1]:5000", None),
            ("host.example.com - -", "first=host.example.com", None),
            ("example.com:443 203.0.113.7 - ann", "server=example.com:443 first=203.0.113.7", Some("ann")),
            ("web1 203.0.113.7 - ann", "server=web1 first=203.0.113.7", Some("ann")),
            ("203.0.113.7 10.0.0.3 - -", "first=203.0.113.7 second=10.0.0.3", None),
            ("203.0.113.7, 10.0.0.3 - -", "first=203.0.113.7, 10.0.0.3", None),
            ("203.0.113.7,10.0.0.3 - -", "first=203.0.113.7,10.0.0.3", None),
            ("\"203.0.113.7, 10.0.0.3\" - -", "first=203.0.113.7, 10.0.0.3", None),
            ("\"203.0.113.7\" 10.0.0.3 - -", "first=203.0.113.7 second=10.0.0.3", None),
            ("- 10.0.0.3 - -", "second=10.0.0.3", None),
            ("203.0.113.7 - [203.0.113.7] - ann", "first=203.0.113.7 x_forwarded_for=203.0.113.7", Some("ann")),
            ("10.0.0.3 - [203.0.113.7, 10.0.0.3] - -", "first=10.0.0.3 x_forwarded_for=203.0.113.7, 10.0.0.3", None),
            ("10.0.0.3 - [203.0.113.7]", "first=10.0.0.3 x_forwarded_for=203.0.113.7", None),
            ("10.0.0.3 - [203.0.113.7] ann", "first=10.0.0.3 x_forwarded_for=203.0.113.7", Some("ann")),
            ("10.0.0.3 - [2001:db8::1]", "first=10.0.0.3 x_forwarded_for=2001:db8::1", None),
            ("203.0.113.7 - [-] - ann", "first=203.0.113.7", Some("ann")),
            ("10.0.0.3 - 203.0.113.7", "first=10.0.0.3 user=203.0.113.7", None),
            ("- - -", "", None),
        ] {
            assert_eq!(head_of(head), Ok((addresses.to_owned(), user.map(str::to_owned))), "{head}");
        }
    }

    #[test]
    fn a_list_of_proxies_after_the_user_agent_is_an_address() {
        for (tail, expected) in [
            (r#""203.0.113.7""#, Some("203.0.113.7")),
            (r#""203.0.113.7, 10.0.0.1""#, Some("203.0.113.7, 10.0.0.1")),
            (r#""-""#, None),
            (r#""-" "203.0.113.7""#, Some("203.0.113.7")),
            (r#""evil, 203.0.113.7""#, Some("evil, 203.0.113.7")),
            (r"345 0.012 [default-web-80] 10.244.1.7:8080 512", None),
            (r#"12 "web@docker" "http://10.0.0.5:80" 3ms"#, None),
        ] {
            let line = format!("10.0.0.3 - - [18/Nov/2024:16:55:01 +0000] {TAIL} {tail}");
            let read = parse(&line).unwrap();
            assert_eq!(read.addresses.get(1).map(|field| &*field.text), expected, "{tail}");
        }
        let line = format!(r#"10.0.0.3 - - [18/Nov/2024:16:55:01 +0000] {TAIL} "1.1.1.1" "203.0.113.7""#);
        let read = parse(&line).unwrap();
        let lists = read.addresses.iter().skip(1).map(|field| (&*field.name, &*field.text));
        assert_eq!(lists.collect::<Vec<_>>(), [("x_forwarded_for", "1.1.1.1"), ("second_list", "203.0.113.7")]);
    }

    /// A time-out or a TLS handshake on a plain port is a call of that client, too.
    #[test]
    fn a_line_without_a_readable_request_still_counts() {
        for request in ["-", r"\x16\x03\x01", "", "GET"] {
            let line = format!(r#"1.1.1.1 - - [17/May/2015:12:05:03 +0200] "{request}" 408 0"#);
            let read = parse(&line).unwrap();
            assert_eq!((read.request, read.status.as_deref()), (RequestTarget::default(), Some("408")), "{request}");
        }
    }

    #[test]
    fn the_reason_names_the_missing_part_of_a_bad_line() {
        for (line, why) in [
            ("1.1.1.1 - - \"GET / HTTP/1.1\" 200", "no time in brackets"),
            (
                "1.1.1.1 - - [yesterday] \"GET / HTTP/1.1\" 200 1",
                "the time `yesterday` is not like 17/May/2015:10:05:03 +0000",
            ),
            ("1.1.1.1 - - [17/May/2015:12:05:03 +0200] GET 200", "no request in quotes"),
            (
                "1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" ok 0",
                "no status of three digits after the request",
            ),
            (
                "app web1 x 1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 0",
                "`app web1 x 1.1.1.1 - -` before the time begins with no address",
            ),
            (
                "2015-05-17T10:05:03Z 10.0.0.9 nginx: 1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 0",
                "`2015-05-17T10:05:03Z 10.0.0.9 nginx: 1.1.1.1 - -` before the time begins with no address",
            ),
            (
                "10.0.0.9 - 1.1.1.1 - - [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 0",
                "`10.0.0.9 - 1.1.1.1 - -` before the time has an address in place of the user",
            ),
            (
                "1.1.1.1 - ann [9.9.9.9] [17/May/2015:12:05:03 +0200] \"GET / HTTP/1.1\" 200 0",
                "`1.1.1.1 - ann [9.9.9.9]` before the time has an address in place of the user",
            ),
        ] {
            assert_eq!(parse(line).err().as_deref(), Some(why), "{line}");
        }
    }
}
