//! Lines that servers write between the calls, such as those of their start. They are no calls, and not wrong.

use super::instant;

const BEGINNINGS: [&str; 7] = ["#", "/docker-entrypoint", "10-listen-on-ipv6", "20-envsubst", "-- ", "==> ", "AH0"];

/// Returns true for a message of a server or of a viewer of logs.
pub(super) fn is_message(line: &str) -> bool {
    BEGINNINGS.iter().any(|beginning| line.starts_with(beginning))
        || is_of_nginx(line)
        || is_of_envoy(line)
        || is_of_apache(line)
}

/// `2024/11/18 16:55:00 [notice] 1#1: start worker processes`
fn is_of_nginx(line: &str) -> bool {
    let Some((time, rest)) = line.split_once(" [") else { return false };
    time.as_bytes().get(4) == Some(&b'/') && instant::of_text(time).is_some() && rest.contains("] ")
}

/// `[2024-11-18 16:55:00.123][1][info][main] [source/server/server.cc:390] …`
fn is_of_envoy(line: &str) -> bool {
    let time = line.strip_prefix('[').and_then(|rest| rest.split_once("]["));
    time.is_some_and(|(time, _)| instant::of_text(time).is_some())
}

/// `[Mon Nov 18 16:55:00.123456 2024] [mpm_event:notice] …`
fn is_of_apache(line: &str) -> bool {
    let rest = line.strip_prefix('[').and_then(|rest| rest.split_once("] ["));
    rest.is_some_and(|(time, _)| {
        time.split(' ').count() == 5 && time.rsplit(' ').next().is_some_and(|year| year.len() == 4)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_servers_are_known() {
        for (line, expected) in [
            ("2024/11/18 16:55:00 [notice] 1#1: start worker processes", true),
            ("/docker-entrypoint.sh: Configuration complete; ready for start up", true),
            ("[2024-11-18 16:55:00.123][1][info][main] [source/server/server.cc:390] x", true),
            ("[Mon Nov 18 16:55:00.123456 2024] [mpm_event:notice] [pid 1:tid 1] AH00489: x", true),
            ("AH00558: httpd: Could not reliably determine the server's name", true),
            ("#Version: 1.0", true),
            ("==> access.log <==", true),
            ("-- Boot 4f --", true),
            (r#"203.0.113.7 - - [x] "GET / HTTP/1.1" 200 1"#, false),
            ("nonsense", false),
            ("[2024-11-18T16:55:00.123Z] \"GET / HTTP/1.1\" 200", false),
        ] {
            assert_eq!(is_message(line), expected, "{line}");
        }
    }
}
