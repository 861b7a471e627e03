//! `tollgate replay`: the callers that rules would have limited, from access logs.

mod help;
mod decisions;

use std::io::{ErrorKind, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate::RuleSet;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{self, Format, progress_bar, say};
use tollgate_core::clock::Timestamp;
use tollgate_core::one_line::one_line;
use tollgate_core::rules::{parse_duration_ms, show_duration_ms};
use tollgate_sim::replay::{
    self, AGENTS_MAX, ClientChoice, LogOptions, LogSample, Reading, ReplayFleet, ReplayInput, SIGNAL_DELAY_MS_MAX,
    STORE_DELAY_MS_MAX,
};

use crate::limits::{Limits, unknown_descriptor};

/// Seed of the agents at which the calls arrive.
const SEED: u64 = 1;
/// Number of calls that `--show` prints.
const CALLS_SHOWN: usize = 3;
/// Shows the callers that rules would have limited, from access logs
#[derive(clap::Args)]
#[command(after_help = help::EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// Logs to read, gzipped or not; - is standard input
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    #[command(flatten)]
    limits: Limits,
    /// Address that is the client: first, first-forwarded, last-forwarded (the address that the nearest proxy added to
    /// X-Forwarded-For), or the name of a field
    #[arg(long, value_name = "WHICH", value_parser = client)]
    client: Option<ClientChoice>,
    /// Fields of JSON lines, such as time=ts,ip=remote_addr,api_key=headers.x-api-key; a name that is no part of a request becomes a descriptor
    #[arg(long, value_name = "NAME=FIELD", value_delimiter = ',', value_parser = named_field)]
    json: Vec<(String, String)>,
    /// Prints the format of the log and its first three calls, and replays nothing
    #[arg(long)]
    show: bool,
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
    let rules = rules(args)?;
    if let Some(decisions) = &args.decisions {
        decisions::check_target(decisions, &args.logs, &args.limits)?;
    }
    for warning in rules.warnings.iter().filter(|_| args.format == Format::Text) {
        output::note(format_args!("warning: {warning}"));
    }
    let options = LogOptions { client: args.client.clone().unwrap_or_default(), map: args.json.clone() };
    let shown = args.show.then_some(CALLS_SHOWN);
    let is_piped = args.logs.iter().any(|log| log == Path::new("-"));
    let reading = if is_piped { "reading   {bytes}" } else { "reading   {bar:40} {bytes} of {total_bytes}" };
    let reading = progress_bar(reading)?;
    let input = ReplayInput::read(&args.logs, Reading { rules: &rules, options: &options, shown }, &reading)?;
    refuse(&input, args.show)?;
    if args.show {
        let sample = LogSample::of(&input);
        output::say_as(args.format, &sample, serde_json::to_string(&sample)?)?;
        return Ok(Exit::Done);
    }
    if let Limits::Short(_) = args.limits
        && let Some((name, hint)) = unknown_descriptor(&rules, input.recording.descriptors().iter().copied())
        && !input.recording.is_empty()
    {
        anyhow::bail!(Usage(format!("--limit counts by `{name}`, which no call of the log has{hint}")));
    }
    replay(args, &rules, &input)
}

/// Fails if a log gives no call, or only calls that may be wrong.
fn refuse(input: &ReplayInput, is_sample: bool) -> anyhow::Result<()> {
    let lines = &input.lines;
    if let Some(damaged) = lines.damaged.first().filter(|_| input.recording.is_empty()) {
        anyhow::bail!("{damaged}");
    }
    if lines.bad == 0 || (is_sample || !input.is_mostly_guessed()) && !input.recording.is_empty() {
        return Ok(());
    }
    let shown = lines.bad_shown.iter().map(|bad| one_line(&format!("{}: {}", bad.place, bad.reason)).into_owned());
    let shown: Vec<_> = shown.collect();
    let all = lines.bad + input.recording.len() as u64;
    anyhow::bail!(
        "{} of {all} lines cannot be read as calls, more than 5%, so nothing is replayed; the first:\n  {}",
        lines.bad,
        shown.join("\n  ")
    )
}

fn replay(args: &ReplayArgs, rules: &RuleSet, input: &ReplayInput) -> anyhow::Result<Exit> {
    let replaying = progress_bar("replaying {bar:40} {human_pos} of {human_len} calls, {per_sec}")?;
    let mut decisions = args.decisions.as_deref().map(decisions::create).transpose()?;
    let out = decisions.as_mut().map(|file| &mut *file.out as &mut dyn Write);
    let ReplayArgs { agents, signal_delay: signal_delay_ms, store_delay: store_delay_ms, .. } = *args;
    let fleet = agents.map(|agents| ReplayFleet { agents, signal_delay_ms, store_delay_ms, seed: SEED });
    let report = replay::run(input, rules, fleet, out, &replaying);
    let report = report.and_then(|report| match &mut decisions {
        Some(file) => file.out.flush().map(|()| report),
        None => Ok(report),
    });
    if report.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return Ok(Exit::Done); // the reader of the decisions has read enough
    }
    let report = report.with_context(|| decisions.map_or("", |file| file.failed))?;
    match args.format {
        Format::Text => say(&report)?,
        Format::Json => {
            let bad = report.bad_lines_shown.iter().map(|bad| format!("{}: {}", bad.place, bad.reason));
            for warning in report.warnings.iter().cloned().chain(bad) {
                output::note(format_args!("warning: {}", one_line(&warning)));
            }
            say(serde_json::to_string(&report)?)?;
        }
    }
    for damaged in &input.lines.damaged {
        output::note(format_args!("error: {damaged}"));
    }
    Ok(if input.lines.damaged.is_empty() { Exit::Done } else { Exit::Failed })
}

fn rules(args: &ReplayArgs) -> anyhow::Result<RuleSet> {
    match &args.limits {
        Limits::From(from) => Ok(from.read(Timestamp::from_ms(1))?),
        Limits::Short(limits) => Ok(tollgate_rules::from_shorthand(limits, 1)?),
        Limits::Unset if args.show => Ok(RuleSet::default()),
        Limits::Unset => {
            Err(Usage("no limit is given: add --limit \"60/min per ip\" or --rules rules.yaml".to_owned()).into())
        }
    }
}

fn client(text: &str) -> Result<ClientChoice, String> {
    let choice = text.parse().ok().filter(|_| !text.is_empty());
    choice.ok_or_else(|| "write first, first-forwarded, last-forwarded, or the name of a field".to_owned())
}

fn named_field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, field)) if !name.is_empty() && !field.is_empty() => Ok((name.to_owned(), field.to_owned())),
        _ => Err("write NAME=FIELD, such as time=ts or ip=request.remote_ip".to_owned()),
    }
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
