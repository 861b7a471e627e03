//! Texts that programs put before each line of a log: syslog, docker-compose, kubectl, and time stamps.
//!
//! A prefix is only searched in a line that no format has read as it is.

use super::instant;

/// Prefix of a program: its name, and the function that removes it.
pub(super) struct LogPrefix {
    pub(super) name: &'static str,
    pub(super) remove: fn(&str) -> Option<&str>,
}

pub(super) static PREFIXES: [LogPrefix; 6] = [
    LogPrefix { name: "colors", remove: colors },
    LogPrefix { name: "docker-compose", remove: compose },
    LogPrefix { name: "kubectl --prefix", remove: kubectl },
    LogPrefix { name: "syslog", remove: syslog },
    LogPrefix { name: "time stamps", remove: time_stamp },
    LogPrefix { name: "grep", remove: grep },
];

/// `\e[36m`
fn colors(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("\u{1b}[")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    rest[end..].strip_prefix('m')
}

/// `nginx-1  | `
fn compose(line: &str) -> Option<&str> {
    let (name, rest) = line.split_once(" | ").or_else(|| line.split_once(" |"))?;
    is_name(name.trim_end()).then(|| rest.trim_start())
}

/// `[pod/web-0/nginx] `
fn kubectl(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("[pod/")?.split_once("] ")?;
    (!name.contains([' ', '['])).then_some(rest)
}

/// `<190>Nov 18 16:55:00 web1 nginx[7]: `, the same with a time of ISO 8601 or of the epoch, or the form of RFC 5424
fn syslog(line: &str) -> Option<&str> {
    let (has_priority, line) = match line.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        Some((priority, rest)) if priority.parse::<u16>().is_ok() => (true, rest),
        _ => (false, line),
    };
    if let Some(rest) = line.strip_prefix("1 ").filter(|_| has_priority) {
        return of_rfc5424(rest);
    }
    let rest = after_bsd_time(line).or_else(|| after_time(line))?;
    let (host, rest) = rest.split_once(' ')?;
    // Some daemons leave out the host.
    let rest = if is_tag(host) { rest } else { rest.split_once(' ').filter(|(tag, _)| is_tag(tag))?.1 };
    Some(rest.trim_start())
}

/// `2024-11-18T16:55:00Z web1 nginx 7 - - `
fn of_rfc5424(line: &str) -> Option<&str> {
    let mut rest = after_time(line)?;
    for _host_program_process_kind in 0..4 {
        (_, rest) = rest.split_once(' ')?;
    }
    let message = match rest.strip_prefix("- ") {
        Some(message) => message,
        None => rest.strip_prefix('[').and_then(|data| data.split_once("] "))?.1,
    };
    Some(message.trim_start_matches('\u{feff}'))
}

/// `2024-11-18T16:55:00.123Z `
fn time_stamp(line: &str) -> Option<&str> {
    after_time(line)
}

/// `access.log.1:`
fn grep(line: &str) -> Option<&str> {
    let (path, rest) = line.split_once(':')?;
    (path.contains("log") && !path.contains(char::is_whitespace) && !path.contains('{')).then_some(rest)
}

fn after_bsd_time(line: &str) -> Option<&str> {
    const LEN: usize = "Nov 18 16:55:00 ".len();
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (time, rest) = line.split_at_checked(LEN)?;
    let is_time = time.as_bytes()[9] == b':' && time.as_bytes()[12] == b':' && time.ends_with(' ');
    (is_time && MONTHS.iter().any(|month| time.starts_with(month))).then_some(rest)
}

fn after_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_once(' ')?;
    instant::parse(time).filter(|_| !time.starts_with('[')).map(|_| rest)
}

fn is_tag(text: &str) -> bool {
    text.strip_suffix(':').is_some_and(|tag| !tag.is_empty() && !tag.contains(':'))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_is_removed_from_its_line_alone() {
        const LINE: &str = r#"203.0.113.7 - - [18/Nov/2024:16:55:00 +0000] "GET / HTTP/1.1" 200 1"#;
        for (prefix, name) in [
            ("\u{1b}[36m", "colors"),
            ("\u{1b}[1;36m", "colors"),
            ("nginx-1  | ", "docker-compose"),
            ("web_nginx_1    | ", "docker-compose"),
            ("[pod/web-0/nginx] ", "kubectl --prefix"),
            ("Nov 18 16:55:00 web1 nginx: ", "syslog"),
            ("Nov  8 16:55:00 web1 nginx[7]: ", "syslog"),
            ("<190>Nov 18 16:55:00 web1 nginx: ", "syslog"),
            ("Nov 18 16:55:00 nginx: ", "syslog"),
            ("2024-11-18T16:55:00.123456+00:00 web1 nginx: ", "syslog"),
            ("2024-11-18T16:55:00+0000 web1 nginx[7]: ", "syslog"),
            ("1731948900.123456 web1 nginx[7]: ", "syslog"),
            ("<190>1 2024-11-18T16:55:00Z web1 nginx 7 - - ", "syslog"),
            ("<190>1 2024-11-18T16:55:00Z web1 nginx - - [x@1 a=\"b\"] \u{feff}", "syslog"),
            ("2024-11-18T16:55:00.123456789Z ", "time stamps"),
            ("/var/log/nginx/access.log.1:", "grep"),
        ] {
            let line = format!("{prefix}{LINE}");
            let removed: Vec<_> = PREFIXES.iter().filter(|known| (known.remove)(&line) == Some(LINE)).collect();
            assert_eq!(removed.iter().map(|known| known.name).collect::<Vec<_>>(), [name], "{prefix}");
        }
        assert!(PREFIXES.iter().all(|known| (known.remove)(LINE).is_none()));
    }
}
