//! Default text format of Envoy, and that of Istio: `[time] "request" status flags … "x-forwarded-for" "user agent" …`.
//!
//! Envoy's default format has no address of the connection, so the client is that of `X-Forwarded-For`. Istio adds the connection.

use super::combined::split_at_time;
use super::log_call::{AddressKind, LogCall};
use super::request_target::RequestTarget;
use super::token::{LogToken, quoted, tokens};

/// Places of `X-Forwarded-For` after the request, in Envoy's default format and in Istio's.
const FORWARDED: usize = 6;
const FORWARDED_OF_ISTIO: usize = 9;
/// Place of the address of the connection in Istio's format, after `X-Forwarded-For`.
const CONNECTION_OF_ISTIO: usize = 8;

/// Returns true for a line that begins with a time of ISO 8601 in brackets and a request.
pub(super) fn detects(line: &str) -> bool {
    let Some((time, rest)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) else { return false };
    time.as_bytes().get(10) == Some(&b'T') && rest.starts_with(" \"")
}

pub(super) fn parse(line: &str) -> Result<LogCall<'_>, String> {
    let (_, time_ms, rest) = split_at_time(line)?;
    let (request, rest) = quoted(rest).ok_or("no request in quotes")?;
    let tokens: Vec<LogToken<'_>> = tokens(rest).collect();
    let is_forwarded = |at: usize| tokens.get(at..at + 5).is_some_and(|part| part.iter().all(|token| token.is_quoted));
    let at = [FORWARDED, FORWARDED_OF_ISTIO].into_iter().find(|at| is_forwarded(*at));
    let at = at.ok_or("no \"x-forwarded-for\", \"user agent\", \"id\", \"authority\" and \"upstream\" in quotes")?;
    let mut call = LogCall { time_ms, request: RequestTarget::of_line(request), ..LogCall::default() };
    call.add_address(AddressKind::Forwarded, "x_forwarded_for", tokens[at].text);
    if let Some(connection) = tokens.get(at + CONNECTION_OF_ISTIO).filter(|_| at == FORWARDED_OF_ISTIO) {
        let kind = if call.addresses.is_empty() { AddressKind::Client } else { AddressKind::Other };
        call.add_address(kind, "downstream_remote_address", connection.text);
    }
    if call.addresses.is_empty() {
        return Err(
            "X-Forwarded-For is `-`, so the line has no client; add %DOWNSTREAM_REMOTE_ADDRESS% to the format, or \
                    set use_remote_address"
                .to_owned(),
        );
    }
    call.user_agent = tokens[at + 1].value();
    call.status = tokens[0].value();
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_gives_its_client() {
        let envoy = |xff: &str| {
            format!(
                r#"[2024-11-18T16:55:00.123Z] "GET /a HTTP/1.1" 200 - 0 512 5 4 "{xff}" "curl/8" "id-1" "example.com" "10.0.0.1:80""#
            )
        };
        let istio = |xff: &str| {
            format!(
                r#"[2024-11-18T16:55:00.123Z] "GET /a HTTP/1.1" 200 - via_upstream - "-" 0 135 4 4 "{xff}" "curl/8" "id-1" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.x default"#
            )
        };
        for (line, expected) in [
            (envoy("203.0.113.7"), Some("203.0.113.7")),
            (envoy("203.0.113.7,10.0.0.1"), Some("203.0.113.7,10.0.0.1")),
            (envoy("-"), None),
            (istio("203.0.113.7"), Some("203.0.113.7")),
            (istio("-"), Some("10.44.1.23:37652")),
            (r#"[2024-11-18T16:55:00.123Z] "GET /a HTTP/1.1" 200 - 0 512"#.to_owned(), None),
        ] {
            assert!(detects(&line));
            let read = parse(&line).ok();
            assert_eq!(read.as_ref().map(|call| &*call.addresses[0].text), expected, "{line}");
            if let Some(call) = read {
                let agent_and_status = (call.user_agent.as_deref(), call.status.as_deref());
                assert_eq!((call.time_ms, agent_and_status), (1_731_948_900_123, (Some("curl/8"), Some("200"))));
            }
        }
    }
}
