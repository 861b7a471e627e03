//! Logs of the load balancers of AWS: application (ALB), classic (ELB) and network (NLB). A line of an NLB is a connection.

use super::instant;
use super::log_call::{AddressKind, LogCall};
use super::request_target::RequestTarget;
use super::token::{LogToken, tokens};

const TYPES_OF_ALB: [&str; 6] = ["http", "https", "h2", "grpcs", "ws", "wss"];

/// Indexes of the parts of a line.
struct BalancerFields {
    time: usize,
    client: usize,
    status: Option<usize>,
    request: Option<usize>,
}

const ALB: BalancerFields = BalancerFields { time: 1, client: 3, status: Some(8), request: Some(12) };
const CLASSIC: BalancerFields = BalancerFields { time: 0, client: 2, status: Some(7), request: Some(11) };
const NLB: BalancerFields = BalancerFields { time: 2, client: 5, status: None, request: None };

pub(super) fn detects_alb(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(kind, rest)| TYPES_OF_ALB.contains(&kind) && begins_with_time(rest))
}

/// Returns true for a time, a name, and two addresses with ports, of which the second may be `-`.
pub(super) fn detects_classic(line: &str) -> bool {
    let mut fields = line.split(' ').skip(2);
    let is_client = |text: &str| text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    begins_with_time(line)
        && fields.next().is_some_and(is_client)
        && fields.next().is_some_and(|text| text == "-" || is_client(text))
}

pub(super) fn detects_nlb(line: &str) -> bool {
    let rest = line.strip_prefix("tls 2.0 ").or_else(|| line.strip_prefix("tls 1.0 "));
    rest.is_some_and(begins_with_time)
}

pub(super) fn parse_alb(line: &str) -> Result<LogCall<'_>, String> {
    parse(line, &ALB)
}

pub(super) fn parse_classic(line: &str) -> Result<LogCall<'_>, String> {
    parse(line, &CLASSIC)
}

pub(super) fn parse_nlb(line: &str) -> Result<LogCall<'_>, String> {
    parse(line, &NLB)
}

fn begins_with_time(text: &str) -> bool {
    let time = text.split(' ').next().unwrap_or_default();
    time.as_bytes().get(10) == Some(&b'T') && instant::of_text(time).is_some()
}

fn parse<'a>(line: &'a str, places: &BalancerFields) -> Result<LogCall<'a>, String> {
    let tokens: Vec<LogToken<'_>> = tokens(line).take(16).collect();
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let time_ms = instant::of_text(text(places.time)).ok_or_else(|| format!("field {} is no time", places.time + 1))?;
    let mut call = LogCall { time_ms, ..LogCall::default() };
    call.add_address(AddressKind::Client, "client", text(places.client));
    if let Some(at) = places.request {
        let request = tokens.get(at).filter(|token| token.is_quoted);
        let request = request.ok_or_else(|| format!("field {} is no request in quotes", at + 1))?;
        call.request = RequestTarget::of_line(request.text);
        call.user_agent = tokens.get(at + 1).and_then(|token| token.value());
    }
    call.status = places.status.and_then(|at| tokens.get(at)).and_then(|token| token.value());
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALB_LINE: &str = r#"https 2018-07-02T22:23:00.186641Z app/my-lb/50dc6c495c0c9188 192.0.2.10:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b=1 HTTP/1.1" "curl/7.46.0" ECDHE TLSv1.2 arn "Root=1" "www.example.com" "arn" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-""#;
    const CLASSIC_LINE: &str = r#"2015-05-13T23:39:43.945958Z my-lb 192.0.2.10:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/a?b=1 HTTP/1.1" "curl/7.38.0" - -"#;
    const NLB_LINE: &str = "tls 2.0 2018-12-20T02:59:40 net/my-lb/c6e77e28c25b2234 g3d4b5e8bb8464cd 192.0.2.10:51341 172.100.100.185:443 5 2 98 246 - arn - ECDHE tlsv12 - my-lb.elb.us-east-2.amazonaws.com - - -";

    #[test]
    fn each_balancer_gives_its_client() {
        let found =
            |line: &str| [detects_alb, detects_classic, detects_nlb].map(|detects: fn(&str) -> bool| detects(line));
        assert_eq!(found(ALB_LINE), [true, false, false]);
        assert_eq!(found(CLASSIC_LINE), [false, true, false]);
        assert_eq!(found(NLB_LINE), [false, false, true]);
        for (call, time_ms, path) in [
            (parse_alb(ALB_LINE), 1_530_570_180_186, Some("/a?b=1")),
            (parse_classic(CLASSIC_LINE), 1_431_560_383_945, Some("/a?b=1")),
            (parse_nlb(NLB_LINE), 1_545_274_780_000, None),
        ] {
            let call = call.unwrap();
            assert_eq!((call.time_ms, &*call.addresses[0].text), (time_ms, call.addresses[0].text.trim()));
            assert!(call.addresses[0].text.starts_with("192.0.2.10:"), "{call:?}");
            assert_eq!((call.request.path.as_deref(), call.status.as_deref()), (path, path.map(|_| "200")));
        }
    }

    #[test]
    fn a_line_without_its_request_is_refused() {
        let cut = &ALB_LINE[..ALB_LINE.find('"').unwrap()];
        assert_eq!(parse_alb(cut).unwrap_err(), "field 13 is no request in quotes");
    }
}
