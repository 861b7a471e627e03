//! `tollgate replay`: the callers that rules would have limited, from access logs.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate::RuleSet;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{self, Format, progress_bar, say};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::{parse_duration_ms, show_duration_ms};
use tollgate_sim::replay::{self, AGENTS_MAX, Recording, ReplayFleet, SIGNAL_DELAY_MS_MAX, STORE_DELAY_MS_MAX};

use crate::limits::{Limits, unknown_descriptor};

/// Seed of the agents at which the calls arrive.
const SEED: u64 = 1;
const EXAMPLES: &str = "\
Examples:
  tollgate replay /var/log/nginx/access.log --limit \"60/min per ip\"
  tollgate replay access.log.*.gz --rules rules.yaml --format json
  zcat old.gz | tollgate replay - --limit \"10/s per ip, endpoint\" --decisions decisions.jsonl
  tollgate replay access.log --limit \"60/min per ip\" --agents 5 --store-delay 2ms --signal-delay 500ms

A line of an access log (common or combined format of nginx and Apache) gives ip, method, endpoint,
status, user and user_agent. A line of JSON is {\"time\": RFC 3339 or milliseconds, \"descriptors\":
{\"name\": \"value\"}, \"cost\": 1}.

With --agents, a simulated fleet answers: agents that share a store, and an aggregator. Each call
arrives at a random agent, the same in each run. An answer is compared with the exact count at its
own instant. After a time without calls in which all counts end, the agents start anew.";

/// Shows the callers that rules would have limited, from access logs
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Logs to read, gzipped or not; - is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    /// Number of agents of a simulated fleet; without it, one agent answers without delays
    #[arg(long, value_name = "N", value_parser = agents)]
    agents: Option<NonZeroU32>,
    /// Time after which the simulated store answers; a rule waits for its `deadline`, by default 15ms
    #[arg(long, value_name = "DURATION", requires = "agents", default_value = "1ms", value_parser = store_delay)]
    store_delay: u64,
    /// Time from a call to its signal at the other agents, of which the simulated bus takes one half for the call and one for the signal
    #[arg(long, value_name = "DURATION", requires = "agents", default_value = "10ms", value_parser = signal_delay)]
    signal_delay: u64,
    /// Form of the report
    #[arg(long, value_enum, default_value = "text", env = "TOLLGATE_FORMAT")]
    format: Format,
    /// Writes each decision to this file as a line of JSON; - is standard output
    #[arg(long, value_name = "FILE", env = "TOLLGATE_DECISIONS")]
    decisions: Option<PathBuf>,
}

pub(crate) fn run(args: &ReplayArgs) -> anyhow::Result<Exit> {
    let rules = rules(&args.limits)?;
    for warning in rules.warnings.iter().filter(|_| args.format == Format::Text) {
        output::note(format_args!("warning: {warning}"));
    }
    let reading = progress_bar("reading   {bar:40} {bytes} of {total_bytes}")?;
    let recording = Recording::read(&args.logs, &rules, &reading)?;
    if let Some(damaged) = recording.damaged.first().filter(|_| recording.is_empty()) {
        anyhow::bail!("{damaged}");
    }
    if recording.is_empty() && recording.bad_lines > 0 {
        let first = recording.bad_lines_shown.first().map(|bad| format!("{}: {}", bad.place, bad.reason));
        anyhow::bail!("none of {} lines is a call; the first: {}", recording.bad_lines, first.unwrap_or_default());
    }
    if let Limits::Short(_) = args.limits
        && let Some((name, hint)) = unknown_descriptor(&rules, recording.descriptors().iter().copied())
        && !recording.is_empty()
    {
        anyhow::bail!(Usage(format!("--limit counts by `{name}`, which no call of the log has{hint}")));
    }
    let replaying = progress_bar("replaying {bar:40} {human_pos} of {human_len} calls, {per_sec}")?;
    let mut decisions = args.decisions.as_deref().map(create).transpose()?;
    let out = decisions.as_mut().map(|(_, out)| &mut **out as &mut dyn Write);
    let ReplayArgs { agents, signal_delay: signal_delay_ms, store_delay: store_delay_ms, .. } = *args;
    let fleet = agents.map(|agents| ReplayFleet { agents, signal_delay_ms, store_delay_ms, seed: SEED });
    let report = replay::run(&recording, &rules, fleet, out, &replaying);
    let report = report.and_then(|report| match &mut decisions {
        Some((_, out)) => out.flush().map(|()| report),
        None => Ok(report),
    });
    if report.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return Ok(Exit::Done); // the reader of the decisions has read enough
    }
    let report = report.with_context(|| decisions.map_or("", |(error, _)| error))?;
    match args.format {
        Format::Text => say(&report)?,
        Format::Json => {
            for bad in &report.bad_lines_shown {
                output::note(format_args!("warning: {}: {}", bad.place, bad.reason));
            }
            say(serde_json::to_string(&report)?)?;
        }
    }
    for damaged in &recording.damaged {
        output::note(format_args!("error: {damaged}"));
    }
    Ok(if recording.damaged.is_empty() { Exit::Done } else { Exit::Failed })
}

fn rules(limits: &Limits) -> anyhow::Result<RuleSet> {
    match limits {
        Limits::From(from) => Ok(from.read(Timestamp::from_ms(1))?),
        Limits::Short(limits) => Ok(tollgate_rules::from_shorthand(limits, 1)?),
        Limits::Unset => {
            Err(Usage("no limit is given: add --limit \"60/min per ip\" or --rules rules.yaml".to_owned()).into())
        }
    }
}

fn create(path: &Path) -> anyhow::Result<(&'static str, Box<dyn Write>)> {
    if path == Path::new("-") {
        return Ok(("cannot write to standard output", Box::new(BufWriter::new(std::io::stdout()))));
    }
    let file = File::create(path).with_context(|| format!("{}: cannot write decisions", path.display()))?;
    Ok(("--decisions: cannot write decisions", Box::new(BufWriter::with_capacity(1 << 16, file))))
}

fn agents(text: &str) -> Result<NonZeroU32, String> {
    let agents = text.parse().ok().filter(|agents: &NonZeroU32| agents.get() <= AGENTS_MAX);
    agents.ok_or_else(|| format!("write a number of agents from 1 to {AGENTS_MAX}"))
}

fn store_delay(text: &str) -> Result<u64, String> {
    delay(text, STORE_DELAY_MS_MAX)
}

fn signal_delay(text: &str) -> Result<u64, String> {
    delay(text, SIGNAL_DELAY_MS_MAX)
}

fn delay(text: &str, ms_max: u64) -> Result<u64, String> {
    let ms = parse_duration_ms(text).filter(|ms| *ms <= ms_max);
    ms.ok_or_else(|| format!("write a duration of whole ms, such as 20ms or 2s, up to {}", show_duration_ms(ms_max)))
}
