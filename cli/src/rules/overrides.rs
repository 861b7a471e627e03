//! `tollgate rules override`, `deny`, `allow` and `overrides`: exceptions with an end beside the published rules.
//!
//! They are published with the file, as a generation of their own, and stay when the file is replaced.

use std::sync::Arc;

use anyhow::bail;
use serde_json::json;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{self, Format, table};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::rules::{RuleSet, TIER, TimedEnd, parse_duration_ms};
use tollgate_rules::{OVERRIDES_LEN_MAX, Override, OverrideEffect, display, override_fault};

use super::change::{ChangeArgs, short_text};
use super::draft::{Draft, in_force};
use super::override_rules::{effects_of, rules_for};
use super::override_words::{override_json, words};
use super::published::{PublishedArgs, PublishedRules, utc};
use crate::check::descriptor;

/// Gives one caller or tier another quota until a time
///
/// The override is published as a generation of its own: it is in force at every agent within two seconds, ends by itself, and
/// stays when the rules are replaced. The units that the caller has used stay counted.
#[derive(clap::Args)]
pub(crate) struct OverrideArgs {
    /// Caller, such as `api_key=k9`, or a tier, such as `tier=gold`
    #[arg(value_name = "NAME=VALUE", value_parser = caller)]
    caller: (String, String),
    /// Quota such as 5000/min, a factor such as x2, or unlimited
    #[arg(required_unless_present = "remove", conflicts_with = "remove")]
    quota: Option<String>,
    /// Rule, if several count by that descriptor; may be repeated [default with --remove: all rules]
    #[arg(id = "rule", long = "rule", value_name = "NAME", hide_env = true)]
    of_rules: Vec<String>,
    #[command(flatten)]
    timed: TimedChangeArgs,
}

/// Denies callers until a time, whatever they have used
///
/// As an entry of the deny list, which is in force at every agent within two seconds and ends by itself.
#[derive(clap::Args)]
pub(crate) struct DenyArgs {
    #[command(flatten)]
    entry: EntryArgs,
}

/// Counts callers and never denies them, until a time
///
/// As an entry of the allow list, which is in force at every agent within two seconds and ends by itself.
#[derive(clap::Args)]
pub(crate) struct AllowArgs {
    #[command(flatten)]
    entry: EntryArgs,
}

/// Lists the overrides and the list entries that end by themselves
#[derive(clap::Args)]
pub(crate) struct OverridesArgs {
    #[command(flatten)]
    place: PublishedArgs,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

#[derive(clap::Args)]
struct EntryArgs {
    /// Values of the callers, such as `api_key=k9` or `ip=10.0.0.0/8`; all must match
    #[arg(value_name = "NAME=VALUE", value_parser = caller, required = true)]
    values: Vec<(String, String)>,
    #[command(flatten)]
    timed: TimedChangeArgs,
}

/// The end of an override, and its publication. What is said of one override has no variable and no key in a settings file
/// (`hide_env`).
#[derive(clap::Args)]
struct TimedChangeArgs {
    /// Time until the end, such as 30min, 1h or 7d
    #[arg(id = "for", long = "for", hide_env = true, value_name = "DURATION", value_parser = duration_ms, conflicts_with = "remove", required_unless_present_any = ["remove", "until"])]
    for_ms: Option<u64>,
    /// End, such as 2026-12-01T12:00:00Z
    #[arg(long, hide_env = true, value_name = "TIME", value_parser = display::parse_utc, conflicts_with_all = ["remove", "for"])]
    until: Option<Timestamp>,
    /// Reason, which `rules overrides` and explanations show
    #[arg(long, hide_env = true, value_name = "TEXT", value_parser = short_text)]
    reason: Option<String>,
    /// End it now
    #[arg(long, hide_env = true)]
    remove: bool,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    place: PublishedArgs,
}

pub(crate) fn override_quota(args: &OverrideArgs) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let now = clock.now();
    let mut place = args.timed.place.open(clock, true)?;
    let (name, value) = &args.caller;
    let set = place.find(None)?.rules()?;
    let is_tier = name == TIER;
    let what = format!("override of {name}={value}");
    if args.timed.remove {
        return remove_quotas(args, &mut place, now, &set, &what);
    }
    let effects: Vec<OverrideEffect> = rules_for(&set, name, &args.of_rules)?
        .into_iter()
        .map(|rule| {
            let quota = args.quota.clone().unwrap_or_default();
            OverrideEffect::Quota { rule, is_tier, of: value.clone(), quota }
        })
        .collect();
    refuse_unmet(&set, &what, &effects)?;
    change(&mut place, now, &what, &effects, &args.timed)
}

/// Ends the overrides of a caller.
fn remove_quotas(
    args: &OverrideArgs,
    place: &mut PublishedRules,
    now: Timestamp,
    set: &RuleSet,
    what: &str,
) -> anyhow::Result<Exit> {
    let effects = effects_of(set, in_force(place, now)?, &args.caller, &args.of_rules);
    change(place, now, what, &effects, &args.timed)
}

/// Refuses overrides of callers that no call has.
fn refuse_unmet(set: &RuleSet, what: &str, effects: &[OverrideEffect]) -> anyhow::Result<()> {
    match effects.iter().find_map(|effect| override_fault(set, effect)) {
        Some(fault) => bail!(Usage(format!("{what}: {fault}"))),
        None => Ok(()),
    }
}

pub(crate) fn deny(args: &DenyArgs) -> anyhow::Result<Exit> {
    list_entry(&args.entry, true)
}

pub(crate) fn allow(args: &AllowArgs) -> anyhow::Result<Exit> {
    list_entry(&args.entry, false)
}

pub(crate) fn list(args: &OverridesArgs) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let now = clock.now();
    let place = args.place.open(clock, false)?;
    let overrides = in_force(&place, now)?;
    let json = json!({ "overrides": overrides.iter().map(override_json).collect::<Vec<_>>() });
    if overrides.is_empty() {
        output::say_as(args.format, "No override is in force.", json)?;
        return Ok(Exit::Done);
    }
    let rows = overrides.iter().map(|Override { effect, end }| {
        let (rule, callers, quota) = words(effect);
        [rule, callers, quota, utc(end.until), end.reason.to_string()]
    });
    let text = table(&["RULE", "CALLERS", "QUOTA", "UNTIL", "REASON"], rows);
    output::say_as(args.format, text, json)?;
    Ok(Exit::Done)
}

fn list_entry(args: &EntryArgs, denies: bool) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let now = clock.now();
    let is_twice =
        |(at, (name, _)): &(usize, &(String, String))| args.values[..*at].iter().any(|(other, _)| other == name);
    if let Some((_, (name, _))) = args.values.iter().enumerate().find(is_twice) {
        let text = "all values of one entry must match; run the command once for each";
        bail!(Usage(format!("`{name}` is given twice: {text}")));
    }
    let mut place = args.timed.place.open(clock, true)?;
    let set = place.find(None)?.rules()?;
    let effect = OverrideEffect::listed(denies, args.values.clone());
    let (list, values, _) = words(&effect);
    let what = format!("{list} {values}");
    let effects = [effect];
    if !args.timed.remove {
        refuse_unmet(&set, &what, &effects)?;
    }
    change(&mut place, now, &what, &effects, &args.timed)
}

/// Publishes the rules in force with these overrides in place of those of the same callers; those that have ended are left out.
fn change(
    place: &mut PublishedRules,
    now: Timestamp,
    what: &str,
    effects: &[OverrideEffect],
    timed: &TimedChangeArgs,
) -> anyhow::Result<Exit> {
    let mut overrides = in_force(place, now)?;
    let known = overrides.len();
    overrides.retain(|known| !effects.iter().any(|effect| is_same_place(effect, &known.effect)));
    if timed.remove && overrides.len() == known {
        bail!("there is no {what} in force; `tollgate rules overrides` lists those that are");
    }
    if let Some(end) = timed.end(now) {
        if end.until <= now {
            bail!(Usage(format!("{} is over; write a later end", utc(end.until))));
        }
        overrides.extend(effects.iter().map(|effect| Override { effect: effect.clone(), end: end.clone() }));
    }
    if overrides.len() > OVERRIDES_LEN_MAX {
        bail!(
            "{OVERRIDES_LEN_MAX} overrides are in force, and there may be no more; remove some, or write them into the file"
        );
    }
    let draft = Draft::of_overrides(place, now, overrides, if timed.remove { 0 } else { effects.len() })?;
    let done = if timed.remove { "removed: " } else { "" };
    let reason = timed.reason.clone().unwrap_or_default();
    timed.change.publish(place, what, draft, &format!("{done}{}{}", kind(effects), separated(&reason)))
}

/// Returns the kind of overrides and their rules, for the history, without the callers.
fn kind(effects: &[OverrideEffect]) -> String {
    match effects {
        [OverrideEffect::Listed { denies: true, .. }, ..] => "deny".to_owned(),
        [OverrideEffect::Listed { .. }, ..] => "allow".to_owned(),
        quotas => {
            let rule = |effect: &OverrideEffect| match effect {
                OverrideEffect::Quota { rule, .. } => Some(rule.clone()),
                OverrideEffect::Listed { .. } => None,
            };
            format!("override of {}", quotas.iter().filter_map(rule).collect::<Vec<_>>().join(", "))
        }
    }
}

fn separated(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// Returns true if both overrides stand in the same place, so that the later one replaces the other.
fn is_same_place(one: &OverrideEffect, other: &OverrideEffect) -> bool {
    match (one, other) {
        (
            OverrideEffect::Quota { rule, is_tier, of, .. },
            OverrideEffect::Quota { rule: other_rule, is_tier: other_is_tier, of: other_of, .. },
        ) => (rule, is_tier, of) == (other_rule, other_is_tier, other_of),
        (one, other) => one == other,
    }
}

impl TimedChangeArgs {
    /// Returns the end; none if the override is removed.
    fn end(&self, now: Timestamp) -> Option<TimedEnd> {
        let until = self.until.or(self.for_ms.map(|ms| now.plus_ms(ms)))?;
        // Whole seconds are easier to read.
        let until = Timestamp::from_ms(until.as_ms().div_ceil(1_000) * 1_000);
        Some(TimedEnd { until, reason: self.reason.clone().unwrap_or_default().into() })
    }
}

/// Reads `NAME=VALUE`.
fn caller(text: &str) -> Result<(String, String), String> {
    let read = descriptor(text)?;
    let is_text = !text.chars().any(char::is_control);
    is_text.then_some(read).ok_or_else(|| "no value of a call has control characters; write one without".to_owned())
}

fn duration_ms(text: &str) -> Result<u64, &'static str> {
    parse_duration_ms(text).filter(|ms| *ms > 0).ok_or("write a time such as 30min, 1h or 7d")
}
