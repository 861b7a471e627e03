//! Logs on standard error, filtered by `TOLLGATE_LOG`, as text or as JSON.

use std::io::{self, IsTerminal, Write, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::exit::Usage;
use crate::output::Format;

/// Flags of the commands that run for long and log.
#[derive(Clone, Debug, clap::Args)]
pub struct LogArgs {
    /// Form of the log; json is one object per line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub log_format: Format,
}

/// Standard error. Line breaks inside a line, such as those of a server's text, are escaped.
struct OneLine;

impl Write for OneLine {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let (body, end) = line.strip_suffix(b"\n").map_or((line, &b""[..]), |body| (body, b"\n"));
        if body.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
            let escaped = String::from_utf8_lossy(body).replace('\n', "\\n").replace('\r', "\\r");
            stderr().write_all(&[escaped.as_bytes(), end].concat())?;
        } else {
            stderr().write_all(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        stderr().flush()
    }
}

/// Starts logging with the filter of `TOLLGATE_LOG`, or with the default.
///
/// # Errors
/// If the variable holds no filter.
pub fn start(default: &str, format: Format) -> Result<(), Usage> {
    let text = std::env::var("TOLLGATE_LOG").unwrap_or_default();
    let filter = parse(if text.is_empty() { default } else { &text })?;
    let colours = stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A closed standard error must not end a limiter.
    let log = tracing_subscriber::fmt().with_writer(|| OneLine).log_internal_errors(false).with_env_filter(filter);
    match format {
        Format::Text => log.with_ansi(colours).with_target(false).init(),
        Format::Json => log.json().flatten_event(true).with_current_span(false).with_span_list(false).init(),
    }
    Ok(())
}

/// Refuses a word that is no level: it would be a target with all its levels, which is never meant.
fn parse(text: &str) -> Result<EnvFilter, Usage> {
    let mut words = text.split(',').map(str::trim).filter(|part| !part.contains(['=', '[']));
    let parsed = match words.find(|word| word.parse::<LevelFilter>().is_err()) {
        Some(word) => Err(format!("`{word}` is no level")),
        None => EnvFilter::try_new(text.replace(' ', "")).map_err(|error| error.to_string()),
    };
    parsed.map_err(|reason| {
        Usage(format!("TOLLGATE_LOG is `{text}`: {reason}; write off, error, warn, info, debug or trace, or such as info,tollgate=debug"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_and_targets_with_levels() {
        for text in ["info", "DEBUG", "off", "info,tollgate=debug", "warn, tollgate_bus::kafka=trace", "[span]=debug"] {
            assert!(parse(text).is_ok(), "{text}");
        }
        for text in ["nonsense", "debgu", "info,tollgate", "tollgate=loud"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
