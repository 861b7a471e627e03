//! Logs on standard error, filtered by `TOLLGATE_LOG`, as text or as JSON.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write, stderr};

use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit::Usage;
use crate::output::{self, Format, one_sentence};

/// Beginning of the targets of all own crates.
const OWN: &str = "tollgate";
/// Beginnings of the targets of all lines.
const TARGETS: [&str; 5] = [OWN, "rdkafka", "librdkafka", "h2", "tonic"];

/// Flags of the commands that run for long and log.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// Form of the log; json is one object per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: Format,
}

impl LogArgs {
    /// Writes the address on which a limiter listens: `listening on URL`, or an object of JSON.
    pub fn announce_address(&self, url: impl Display) {
        match self.log_format {
            Format::Text => output::announce(format_args!("listening on {url}")),
            Format::Json => output::announce(json!({ "listening": url.to_string() })),
        }
    }

    /// Writes what a person may try, which programs do not read.
    pub fn announce_hint(&self, text: impl Display) {
        if self.log_format == Format::Text {
            output::announce(text);
        }
    }
}

/// Standard error. Line breaks inside a line, such as those of a server's text, become semicolons.
struct OneLine;

impl Write for OneLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (body, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |body| (body, b"\n"));
        if body.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            let joined = one_sentence(&String::from_utf8_lossy(body));
            stderr().write_all(&[joined.as_bytes(), end].concat())?;
        } else {
            stderr().write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}

/// Returns true if a command line or its environment asks for a log as JSON. It is asked before either is parsed, because an error
/// in them is logged, too.
#[must_use]
pub fn wants_json(args: &[OsString]) -> bool {
    let is_named = |arg: &OsString| arg == "--log-format";
    let after = args.iter().position(is_named).and_then(|place| args.get(place + 1));
    let joined = args.iter().any(|arg| arg == "--log-format=json");
    let is_flag = joined || after.is_some_and(|value| value == "json");
    is_flag || after.is_none() && std::env::var_os("TOLLGATE_LOG_FORMAT").is_some_and(|value| value == "json")
}

/// Starts logging with the filter of `TOLLGATE_LOG`, or with the default.
///
/// # Errors
/// If the variable holds no filter. A log as JSON has started all the same, with the default.
pub fn start(default: &str, format: Format) -> Result<(), Usage> {
    let text = std::env::var("TOLLGATE_LOG").unwrap_or_default();
    let parsed = parse(if text.is_empty() { default } else { &text });
    let (filter, refused) = match (parsed, format) {
        (Ok(filter), _) => (filter, None),
        (Err(error), Format::Text) => return Err(error),
        (Err(error), Format::Json) => (EnvFilter::new(default), Some(error)),
    };
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A closed standard error must not end a limiter.
    let log = tracing_subscriber::fmt().with_writer(|| OneLine).log_internal_errors(false).with_env_filter(filter);
    match format {
        Format::Text => log.with_ansi(colours).with_target(false).init(),
        Format::Json => {
            log.json().flatten_event(true).with_current_span(false).with_span_list(false).init();
            std::panic::set_hook(Box::new(|panic| tracing::error!("{}", one_sentence(&panic.to_string()))));
        }
    }
    refused.map_or(Ok(()), Err)
}

/// Refuses a word that is no level, which would be a target with all its levels, and a target that writes no line: it would turn
/// the others off.
fn parse(text: &str) -> Result<EnvFilter, Usage> {
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let is_word = |part: &&str| !part.contains(['=', '[']);
    let wrong_level = parts().filter(is_word).find(|word| word.parse::<LevelFilter>().is_err());
    let targets = parts().filter(|part| !is_word(part)).filter_map(|part| part.split(['=', '[']).next());
    let wrong_target = targets.map(str::trim).find(|target| !target.is_empty() && !is_known(target));
    let parsed = match (wrong_level, wrong_target) {
        (Some(word), _) => Err(format!("`{word}` is no level")),
        (_, Some(target)) => Err(format!("no line is from `{target}`")),
        _ => EnvFilter::try_new(text.replace(' ', "")).map_err(|error| error.to_string()),
    };
    parsed.map_err(|reason| {
        Usage(format!(
            "TOLLGATE_LOG is `{text}`: {reason}; write off, error, warn, info, debug or trace, or such as info,tollgate=debug, with targets that begin with {}",
            TARGETS.join(", ")
        ))
    })
}

/// Returns true if lines of the program have targets that begin so.
fn is_known(target: &str) -> bool {
    let name = target.split("::").next().unwrap_or_default();
    let is_module = target.contains("::");
    let is_of = |known: &&str| *known == name || !is_module && known.starts_with(name);
    name.starts_with("tollgate_") || TARGETS.iter().any(is_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_and_targets_with_levels() {
        for text in [
            "info",
            "DEBUG",
            "off",
            "info,tollgate=debug",
            "warn, tollgate_bus::kafka=trace",
            "rdkafka=debug",
            "tollgate=debug",
            "[span]=debug",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in [
            "nonsense",
            "debgu",
            "info,tollgate",
            "tollgate=loud",
            "nonsense=5",
            "info,tolgate=debug",
            "bus::kafka=debug",
        ] {
            let Err(Usage(told)) = parse(text) else { panic!("{text}") };
            assert!(told.contains("such as info,tollgate=debug"), "{told}");
        }
    }

    #[test]
    fn json_is_wanted_by_the_flag() {
        for (args, wanted) in [
            (&["up", "--log-format", "json"][..], true),
            (&["up", "--log-format=json", "--bogus"], true),
            (&["up", "--log-format", "text"], false),
            (&["up", "--log-format"], false),
        ] {
            let args: Vec<OsString> = args.iter().map(Into::into).collect();
            assert_eq!(wants_json(&args), wanted, "{args:?}");
        }
    }
}
