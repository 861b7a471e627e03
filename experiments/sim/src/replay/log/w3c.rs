//! Extended log format of the W3C, as CloudFront and IIS write it: a line `#Fields:` names the columns of the lines after it.

use std::borrow::Cow;

use super::forwarding;
use super::instant;
use super::log_call::{AddressKind, LogCall};
use super::request_target::RequestTarget;
use super::token::is_absent;

const CLIENT: &str = "c-ip";

/// Returns the columns that a line names, if it is such a header.
pub(super) fn columns(line: &str) -> Option<Vec<String>> {
    let fields = line.strip_prefix("#Fields:")?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// Returns true for a line that begins with a date and a time as the first two of several columns.
pub(super) fn detects(line: &str) -> bool {
    let mut fields = line.split(['\t', ' ']);
    let (date, time) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    let is_date = date.len() == 10 && date.split('-').all(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
    is_date && time.len() >= 8 && time.split(':').count() == 3
}

/// Parses a line. Each column whose name can be that of a client can be chosen with `field`.
pub(super) fn parse<'a>(line: &'a str, columns: &'a [String], field: Option<&str>) -> Result<LogCall<'a>, String> {
    if columns.is_empty() {
        return Err("no line `#Fields:` before it names the columns".to_owned());
    }
    let separator = if line.contains('\t') { '\t' } else { ' ' };
    let values: Vec<&str> = line.split(separator).collect();
    if values.len() != columns.len() {
        return Err(format!("{} columns, but `#Fields:` names {}", values.len(), columns.len()));
    }
    let value = |name: &str| {
        let at = columns.iter().position(|column| column.eq_ignore_ascii_case(name))?;
        Some(values[at]).filter(|value| !is_absent(value))
    };
    let time = value("time").ok_or("no column `time`")?;
    let date = value("date").ok_or("no column `date`")?;
    let time_ms = instant::of_text(&format!("{date}T{time}")).ok_or("`date` and `time` are no time")?;
    let mut call = LogCall { time_ms, ..LogCall::default() };
    if let Some(client) = value(CLIENT) {
        call.add_address(AddressKind::Client, CLIENT, client);
    }
    for (name, text) in columns.iter().zip(&values) {
        if let Some(kind) = forwarding::kind_of(name) {
            call.add_address(kind, name, forwarding::addresses(plain(text)));
        }
    }
    if let Some(field) = field.filter(|field| call.addresses.iter().all(|known| known.name != *field))
        && let Some(text) = value(field)
    {
        call.add_address(AddressKind::Other, field.to_owned(), plain(text));
    }
    call.request = RequestTarget::of_parts(value("cs-method"), value("cs-uri-stem"));
    call.status = value("sc-status").map(Cow::Borrowed);
    call.user = value("cs-username").map(Cow::Borrowed);
    call.user_agent = value("cs(User-Agent)").map(plain);
    Ok(call)
}

/// Returns a value without the escapes of these formats: `+` and `%20` for a space.
fn plain(text: &str) -> Cow<'_, str> {
    if !text.contains(['+', '%']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = escaped.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            rest = after;
        }
    }
    // CloudFront escapes the escapes of a user agent.
    let once = String::from_utf8_lossy(&bytes).into_owned();
    Cow::Owned(once.replace("%20", " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_the_header_are_read() {
        let cloudfront =
            "date time x-edge-location c-ip cs-method cs-uri-stem sc-status cs(User-Agent) x-forwarded-for";
        let iis = "date time s-ip cs-method cs-uri-stem cs-username c-ip cs(User-Agent) sc-status";
        for (header, line, expected) in [
            (
                cloudfront,
                "2024-11-18\t16:55:00\tFRA56\t203.0.113.7\tGET\t/a\t200\tMozilla/5.0%2520(X11)\t198.51.100.9",
                ("203.0.113.7", None, "Mozilla/5.0 (X11)"),
            ),
            (
                iis,
                "2024-11-18 16:55:00 10.0.0.1 GET /a ann 203.0.113.7 Mozilla/5.0+(X11) 200",
                ("203.0.113.7", Some("ann"), "Mozilla/5.0 (X11)"),
            ),
        ] {
            let columns = columns(&format!("#Fields: {header}")).unwrap();
            assert!(detects(line));
            let call = parse(line, &columns, None).unwrap();
            assert_eq!((&*call.addresses[0].text, call.user.as_deref(), call.user_agent.as_deref().unwrap()), expected);
            assert_eq!((call.time_ms, call.status.as_deref()), (1_731_948_900_000, Some("200")));
            assert_eq!(call.request, RequestTarget::of_line("GET /a HTTP/1.1"));
        }
    }

    #[test]
    fn a_line_without_its_header_or_with_other_columns_is_refused() {
        let columns = columns("#Fields: date time c-ip").unwrap();
        assert!(parse("2024-11-18 16:55:00 203.0.113.7", &[], None).unwrap_err().contains("#Fields:"));
        assert!(parse("2024-11-18 16:55:00 203.0.113.7 x", &columns, None).unwrap_err().starts_with("4 columns"));
        assert!(parse("2024-11-18 16:55:00 -", &columns, None).unwrap().addresses.is_empty());
    }
}
