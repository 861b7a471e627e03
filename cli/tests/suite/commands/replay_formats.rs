//! `tollgate replay`: the formats of logs. Each has the same fifteen calls and gives the same decisions, or is refused by name.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{file, finish, tollgate};

/// Lines with `IP`, `SS` for the second and `PATH`, in the form of each server.
const LINES: [(&str, &str); 42] = [
    ("combined", r#"IP - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("common", r#"IP - ann [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5"#),
    ("zone", r#"IP - - [18/Nov/2024:22:25:SS +0530] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("empty-user", r#"IP - "" [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("user-with-space", r#"IP - john smith [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("user-with-brackets", r#"IP - a]b[ [x] [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("quoted-user", r#"IP - \"ann \" [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("port", r#"IP:50SS - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("mapped", r#"[::ffff:IP]:50SS - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("server-first", r#"example.com:443 IP - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("connection-second", r#"IP 10.0.0.3 - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("proxies-first", r#"IP, 10.0.0.3 - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("forwarded", r#"IP - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x" "-""#),
    ("fraction", r#"IP - - [18/Nov/2024:16:55:SS.123 +0000] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("iso", r#"IP - - [2024-11-18T16:55:SS+00:00] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    ("msec", r#"IP - - [17319489SS.123] "GET PATH HTTP/1.1" 200 5 "-" "x""#),
    (
        "ingress",
        r#"IP - [IP] - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/2.0" 200 5 "-" "x" 345 0.012 [web-80] 10.244.1.7:80 5 0.012 200"#,
    ),
    (
        "traefik",
        r#"IP - - [18/Nov/2024:16:55:SS +0000] "GET PATH HTTP/1.1" 200 5 "-" "x" 7 "web@docker" "http://10.0.0.5:80" 3ms"#,
    ),
    (
        "nginx.json",
        r#"{"time": "2024-11-18T16:55:SS+00:00", "remote_addr": "IP", "http_x_forwarded_for": "", "request_uri": "PATH", "request_time": 0.003}"#,
    ),
    (
        "msec.json",
        r#"{"msec": "17319489SS.123", "remote_addr": "IP", "request": "GET PATH HTTP/1.1", "status": "200"}"#,
    ),
    (
        "caddy",
        r#"{"level": "info", "ts": 17319489SS.27, "logger": "http.log.access", "msg": "handled request", "request": {"remote_ip": "IP", "client_ip": "IP", "proto": "HTTP/2.0", "method": "GET", "uri": "PATH"}, "status": 200}"#,
    ),
    (
        "traefik.json",
        r#"{"ClientAddr": "IP:51234", "ClientHost": "IP", "RequestMethod": "GET", "RequestPath": "PATH", "StartUTC": "2024-11-18T16:55:SS.123456789Z", "level": "info", "msg": "", "time": "2024-11-18T16:55:59Z"}"#,
    ),
    (
        "google.json",
        r#"{"httpRequest": {"remoteIp": "IP", "requestMethod": "GET", "requestUrl": "https://example.com/PATH", "serverIp": "10.0.0.5"}, "timestamp": "2024-11-18T16:55:SS.123Z", "severity": "INFO"}"#,
    ),
    (
        "azure.json",
        r#"{"time": "2024-11-18T16:55:SS.0000000Z", "category": "FrontDoorAccessLog", "properties": {"clientIp": "IP", "socketIp": "10.0.0.3", "httpMethod": "GET", "requestUri": "https://example.com:443PATH"}}"#,
    ),
    (
        "alb",
        r#"https 2024-11-18T16:55:SS.186641Z app/lb/50dc IP:28SS 10.0.0.1:80 0.0 0.0 0.0 200 200 0 57 "GET https://example.com:443PATH HTTP/1.1" "x" - -"#,
    ),
    (
        "elb",
        r#"2024-11-18T16:55:SS.945958Z lb IP:28SS 10.0.0.1:80 0.0 0.0 0.0 200 200 0 57 "GET https://example.com:443PATH HTTP/1.1" "x" - -"#,
    ),
    (
        "nlb",
        "tls 2.0 2024-11-18T16:55:SS net/lb/c6e7 g3d4 IP:51341 10.0.0.1:443 5 2 98 246 - arn - ECDHE tlsv12 - example.com - - -",
    ),
    ("cloudfront", "2024-11-18\t16:55:SS\tFRA56\tIP\tGET\tPATH"),
    ("iis", "2024-11-18 16:55:SS 10.0.0.5 IP GET PATH"),
    (
        "envoy",
        r#"[2024-11-18T16:55:SS.123Z] "GET PATH HTTP/1.1" 200 - 0 5 5 4 "IP" "x" "id" "example.com" "10.0.0.1:80""#,
    ),
    (
        "haproxy",
        r#"Nov 18 16:55:SS lb1 haproxy[42886]: IP:27088 [18/Nov/2024:16:55:SS.482] https~ web/srv1 0/0/2/10/12 200 5 - - ---- 6/6/0/0/0 0/0 "GET PATH HTTP/1.1""#,
    ),
    ("compose", "nginx-1  | COMBINED"),
    ("colored-compose", "\u{1b}[36mnginx-1  | \u{1b}[0mCOMBINED"),
    ("cri", "2024-11-18T16:55:SS.347712782Z stdout F COMBINED"),
    ("docker.json", r#"{"log": "JSONED\n", "stream": "stdout", "time": "2024-11-18T16:55:SS.74181707Z"}"#),
    ("shipped.json", r#"{"message": "JSONED", "@timestamp": "2024-11-18T16:55:59Z", "agent": {"type": "filebeat"}}"#),
    ("syslog", "Nov 18 16:55:SS web1 nginx: COMBINED"),
    ("syslog-new", "<190>1 2024-11-18T16:55:SS.123Z web1 nginx 7 - - COMBINED"),
    ("syslog-of-address", "2024-11-18T16:55:SS.123456+00:00 10.0.0.9 nginx: COMBINED"),
    ("time-stamps", "2024-11-18T16:55:SS.123Z COMBINED"),
    ("grep", "access.log.1:COMBINED"),
    ("calls.json", r#"{"time": 17319489SS, "descriptors": {"ip": "IP"}}"#),
];
const COMBINED: &str = LINES[0].1;
const HEADER: &str = "#Version: 1.0\n#Fields: date time place c-ip cs-method cs-uri-stem\n";

/// Returns fifteen calls: twelve of one address in twelve seconds, and three of another one.
fn fifteen(line: &str) -> String {
    let line = line.replace("COMBINED", COMBINED).replace("JSONED", &COMBINED.replace('"', "\\\""));
    let mut log = String::new();
    for second in 0..12 {
        let call =
            |ip: &str, path: &str| line.replace("IP", ip).replace("SS", &format!("{second:02}")).replace("PATH", path);
        writeln!(log, "{}", call("203.0.113.7", "/api/items?page=1")).unwrap();
        if second % 4 == 1 {
            writeln!(log, "{}", call("198.51.100.9", "/")).unwrap();
        }
    }
    log
}

fn replay(name: &str, log: &str, args: &[&str]) -> crate::support::Finished {
    let log = file(&format!("formats/{name}.log"), log);
    finish(tollgate(&["replay", "--limit", "5/min per ip"]).arg(log).args(args))
}

fn figures(out: &str) -> [Option<u64>; 4] {
    let report: Value = serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"));
    let rule = &report["rules"][0];
    [report["calls"].as_u64(), rule["admitted"].as_u64(), rule["denied"].as_u64(), rule["counters"].as_u64()]
}

/// The forms of packages and guides give the same callers at the same times.
#[test]
fn each_format_gives_the_same_decisions() {
    for (name, line) in LINES {
        for (form, log) in [
            ("plain", format!("{HEADER}{}", fifteen(line))),
            ("bom-crlf", format!("\u{feff}{}", format!("{HEADER}{}", fifteen(line)).replace('\n', "\r\n"))),
        ] {
            let done = replay(&format!("{name}-{form}"), &log, &["--format", "json"]);
            assert_eq!(done.exit, 0, "{name} {form}: {}", done.err);
            assert_eq!(figures(&done.out), [15, 8, 7, 2].map(Some), "{name} {form}: {}", done.out);
        }
    }
}

/// A wrong caller is never counted in silence: a line names its client, or is refused with the field that looks wrong.
#[test]
fn a_line_that_does_not_name_its_client_is_refused_with_the_field() {
    let combined = |head: &str| COMBINED.replace("IP", head);
    for (name, line, said) in [
        ("unknown-host", combined("web1"), "the client (`first`) is `web1`, which is no address"),
        ("dash", combined("-"), "the line has no address of a client"),
        ("unknown", combined("unknown"), "the line has no address of a client"),
        ("socket", combined("unix:"), "the client (`first`) is `unix:`, which is no address"),
        ("two", combined("IP 192.0.2.3").replace("IP", "203.0.113.7"), "choose with --client first"),
        ("prefix", combined("app web1 x 203.0.113.7"), "before the time begins with no address"),
        ("list", combined("203.0.113.7, 192.0.2.3"), "203.0.113.7 and 192.0.2.3 may be the client (`first`)"),
        (
            "envoy",
            LINES.iter().find(|(name, _)| *name == "envoy").unwrap().1.replace("IP", "-"),
            "X-Forwarded-For is `-`",
        ),
        ("json", r#"{"time": 1731948900, "host": "web1"}"#.to_owned(), "name it with --json ip=FIELD"),
        (
            "two.json",
            r#"{"time": 1731948900, "client_ip": "203.0.113.7", "remote_addr": "192.0.2.3"}"#.to_owned(),
            "choose with --client",
        ),
        ("tagged", combined("10.0.0.9 nginx: 203.0.113.7"), "before the time begins with no address"),
        ("host-in-prefix", combined("10.0.0.9 - 203.0.113.7"), "has an address in place of the user"),
        (
            "shipped.json",
            format!(
                r#"{{"timestamp": 1731948900, "client": "10.0.0.9", "message": "{}"}}"#,
                COMBINED.replace("IP", "203.0.113.7").replace('"', "\\\"")
            ),
            "name different clients",
        ),
        ("headless", "2024-11-18\t16:55:00\tFRA56\t203.0.113.7".to_owned(), "no line `#Fields:`"),
    ] {
        let done = replay(&format!("refused-{name}"), &fifteen(&line), &[]);
        assert_eq!((done.exit, &*done.out), (1, ""), "{name}: {}", done.err);
        assert!(done.err.contains("15 of 15 lines cannot be read") && done.err.contains(said), "{name}: {}", done.err);
        assert!(done.err.contains(&format!("refused-{name}.log:3: ")), "three places: {}", done.err);
    }
}

/// A format that is not read is refused by name, with the command that converts it.
#[test]
fn a_known_format_that_is_not_read_is_refused_with_the_way_out() {
    for (name, log, said) in [
        ("zst", &b"\x28\xb5\x2f\xfd\x04\x00"[..], "this is zstd, which is not read; convert it: `zstdcat "),
        ("bz2", b"BZh91AY&SY", "this is bzip2"),
        ("xz", b"\xfd7zXZ\0\0", "this is xz"),
        ("utf16", b"\xff\xfe2\0", "iconv -f UTF-16 -t UTF-8 "),
        ("array", b"[{\"time\": 1731948900, \"remote_addr\": \"203.0.113.7\"}]\n", "jq -c '.[]' "),
        ("pretty", b"{\n  \"time\": 1731948900\n}\n", "jq -c . "),
        ("records", b"{\"records\": [{}]}\n", "jq -c '.records[]' "),
        ("logfmt", b"time=1 level=info ip=203.0.113.7\n", "this is logfmt"),
        ("csv", b"time,ip,method,path\n", "this is CSV"),
        ("squid", b"1731948900.123    456 203.0.113.7 TCP_MISS/200 512 GET http://x/ - -\n", "the format of Squid"),
        ("tcp", b"203.0.113.7:1 [18/Nov/2024:16:55:00.482] a b/c 0/0/7 2 -- 0/0/0/0/3 0/0\n", "option httplog"),
    ] {
        let path = file(&format!("formats/named-{name}"), "");
        std::fs::write(&path, log).unwrap();
        let done = finish(tollgate(&["replay", "--limit", "5/min per ip"]).arg(&path));
        assert_eq!((done.exit, &*done.out), (1, ""), "{name}: {}", done.err);
        assert!(done.err.contains(said), "{name}: {}", done.err);
        let is_complete = !said.ends_with(' ') || done.err.contains(&format!("{said}{}", path.display()));
        assert!(is_complete, "the command names the file: {}", done.err);
    }
}

/// Parts of a long line, as runtimes of containers write them, are one call.
#[test]
fn a_line_that_a_container_splits_is_one_call() {
    let whole = COMBINED.replace("IP", "203.0.113.7").replace("SS", "00").replace("PATH", "/a");
    let (first, second) = whole.split_at(40);
    let cri = format!(
        "2024-11-18T16:55:00Z stdout P {first}\n2024-11-18T16:55:00Z stderr F 2024/11/18 16:55:00 [error] 7#7: x\n\
         2024-11-18T16:55:00Z stdout F {second}\n"
    );
    let json = |text: &str, end: &str| {
        format!(
            r#"{{"log": "{}{end}", "stream": "stdout", "time": "2024-11-18T16:55:00Z"}}"#,
            text.replace('"', "\\\"")
        )
    };
    let docker = format!("{}\n{}\n", json(first, ""), json(second, "\\n"));
    for (name, log) in [("parts-cri", cri), ("parts-docker", docker)] {
        let done = replay(name, &log, &["--format", "json"]);
        assert_eq!(done.exit, 0, "{name}: {}", done.err);
        assert_eq!(figures(&done.out), [1, 1, 0, 1].map(Some), "{name}");
    }
}

/// Unusual requests have the endpoint that an agent counts, and handshakes are calls without one.
#[test]
fn unusual_requests_have_the_endpoint_of_an_agent() {
    let requests = [
        ("GET http://example.com/login HTTP/1.1", Some(("GET", "/login"))),
        ("get /login/ HTTP/1.1", Some(("GET", "/login"))),
        ("PROPFIND /dav HTTP/1.1", Some(("PROPFIND", "/dav"))),
        ("M-SEARCH /dav HTTP/1.1", Some(("M-SEARCH", "/dav"))),
        ("GET /a b c HTTP/1.1", Some(("GET", "/a b c"))),
        (r"\x16\x03\x01\x02\x00", None),
        ("-", None),
        ("", None),
    ];
    let line = |(request, _): &(&str, _)| {
        format!("203.0.113.7 - - [18/Nov/2024:16:55:00 +0000] \"{request}\" 400 0 \"-\" \"-\"\n")
    };
    let log = file("formats/requests.log", &requests.iter().map(line).collect::<String>());
    let done = finish(tollgate(&["replay", "--limit", "50/min per ip", "--decisions", "-"]).arg(log));
    let decisions = done.out.lines().take(requests.len()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    for ((request, expected), decision) in requests.iter().zip(decisions) {
        let of = |name: &str| decision["descriptors"][name].as_str();
        assert_eq!(of("method").zip(of("endpoint")), *expected, "{request}");
    }
}
