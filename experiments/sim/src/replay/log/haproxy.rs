//! HTTP format of HAProxy: `client:port [time] frontend backend/server timers status bytes … "request"`.

use super::address;
use super::instant;
use super::log_call::{AddressKind, LogCall};
use super::request_target::RequestTarget;
use super::token::is_absent;

/// Returns true for an address with a port, and a time in brackets that has no zone.
pub(super) fn detects(line: &str) -> bool {
    let Some((client, rest)) = line.split_once(" [") else { return false };
    let time = rest.split_once("] ").map(|(time, _)| time);
    address::ip(without_port(client)).is_some()
        && time.is_some_and(|time| !time.contains(' ') && time.contains('/') && time.contains('.'))
}

/// Returns the client without its port, which ends an IPv6 address without brackets, too.
fn without_port(client: &str) -> &str {
    match client.rsplit_once(':') {
        Some((address, port)) if address::is_port(port) && address::ip(address).is_some() => address,
        _ => client,
    }
}

pub(super) fn parse(line: &str) -> Result<LogCall<'_>, String> {
    let (client, rest) = line.split_once(" [").ok_or("no time in brackets")?;
    let (time, rest) = rest.split_once("] ").ok_or("no time in brackets")?;
    let time_ms = instant::parse(time).ok_or("the time is not like 18/Nov/2024:16:55:00.482")?;
    let fields: Vec<&str> = rest.split(' ').take(4).collect();
    let [_, _, timers, status] = fields[..] else { return Err("no timers and no status".to_owned()) };
    if timers.split('/').count() < 5 {
        return Err("a line of `option tcplog` is a connection, not a call; log with `option httplog`".to_owned());
    }
    let request = rest.rsplit_once('"').and_then(|(rest, _)| rest.split_once('"'));
    let (_, request) = request.ok_or("no request in quotes")?;
    let mut call = LogCall { time_ms, request: RequestTarget::of_line(request), ..LogCall::default() };
    call.add_address(AddressKind::Client, "client", without_port(client));
    call.status = (!is_absent(status) && status != "-1").then(|| status.into());
    Ok(call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_http_is_read_and_a_line_of_tcp_is_refused() {
        let http = r#"203.0.113.7:27088 [18/Nov/2024:16:55:00.482] https~ web/srv1 0/0/2/10/12 200 512 - - ---- 6/6/0/0/0 0/0 {a|b} "GET /a HTTP/1.1""#;
        let tcp = "203.0.113.7:27088 [18/Nov/2024:16:55:00.482] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0";
        assert!(detects(http) && detects(tcp));
        let call = parse(http).unwrap();
        assert_eq!((call.time_ms, &*call.addresses[0].text), (1_731_948_900_482, "203.0.113.7"));
        assert_eq!((call.request, call.status.as_deref()), (RequestTarget::of_line("GET /a HTTP/1.1"), Some("200")));
        for (client, expected) in [
            ("::ffff:203.0.113.7:27088", "::ffff:203.0.113.7"),
            ("2001:db8::5:27088", "2001:db8::5"),
            ("2001:db8::5:443", "2001:db8::5"),
            ("2001:db8:1:2:3:4:5:6:443", "2001:db8:1:2:3:4:5:6"),
            ("[2001:db8::5]:443", "[2001:db8::5]"),
        ] {
            let line = http.replace("203.0.113.7:27088", client);
            assert!(detects(&line), "{client}");
            assert_eq!(parse(&line).unwrap().addresses[0].text, expected);
        }
        assert!(parse(tcp).unwrap_err().contains("option httplog"));
        assert!(!detects(r#"203.0.113.7 - - [18/Nov/2024:16:55:01 +0000] "GET / HTTP/1.1" 200 1"#));
    }
}
