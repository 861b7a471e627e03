//! `tollgate rules override`, `deny`, `allow` and `overrides`: exceptions with an end beside the published rules.
//!
//! They are published with the file, as a generation of their own, and stay when the file is replaced.

use std::sync::Arc;

use anyhow::{anyhow, bail};
use serde_json::{Value, json};
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output::{self, Format, table};
use tollgate_core::clock::{Clock, SystemClock, Timestamp};
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::{RuleSet, TIER, TimedEnd, parse_duration_ms};
use tollgate_rules::{
    OVERRIDES_LEN_MAX, Override, OverrideEffect, display, overrides_text, read_overrides, read_published,
};

use super::change::{ChangeArgs, short_text};
use super::published::{PublishedArgs, PublishedRules, utc};
use crate::check::descriptor;

/// Gives one caller or tier another quota until a time
///
/// The override is published as a generation of its own: it is in force at every agent within two seconds, ends by itself, and
/// stays when the rules are replaced. The units that the caller has used stay counted.
#[derive(clap::Args)]
pub(crate) struct OverrideArgs {
    /// Caller, such as `api_key=k9`, or a tier, such as `tier=gold`
    #[arg(value_name = "NAME=VALUE", value_parser = descriptor)]
    caller: (String, String),
    /// Quota such as 5000/min, a factor such as x2, or unlimited
    #[arg(required_unless_present = "remove")]
    quota: Option<String>,
    /// Rule, if several count by that descriptor; may be repeated
    #[arg(long = "rule", value_name = "NAME")]
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
    /// Values of the callers, such as `api_key=k9` or `ip=10.0.0.*`; all must match
    #[arg(value_name = "NAME=VALUE", value_parser = descriptor, required = true)]
    values: Vec<(String, String)>,
    #[command(flatten)]
    timed: TimedChangeArgs,
}

/// The end of an override, and its publication.
#[derive(clap::Args)]
struct TimedChangeArgs {
    /// Time until the end, such as 30min, 1h or 7d
    #[arg(long = "for", value_name = "DURATION", value_parser = duration_ms, conflicts_with = "remove", required_unless_present_any = ["remove", "until"])]
    for_ms: Option<u64>,
    /// End, such as 2026-12-01T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = display::parse_utc, conflicts_with_all = ["remove", "for_ms"])]
    until: Option<Timestamp>,
    /// Reason, which `rules overrides` and explanations show
    #[arg(long, value_name = "TEXT", value_parser = short_text)]
    reason: Option<String>,
    /// End it now
    #[arg(long)]
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
    let effects: Vec<OverrideEffect> = rules_for(&set, name, &args.of_rules)?
        .into_iter()
        .map(|rule| {
            let quota = args.quota.clone().unwrap_or_default();
            OverrideEffect::Quota { rule, is_tier, of: value.clone(), quota }
        })
        .collect();
    let what = format!("override of {name}={value}");
    change(&mut place, now, &what, &effects, &args.timed)
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
    let mut place = args.timed.place.open(clock, true)?;
    place.find(None)?;
    let effect = OverrideEffect::Listed { denies, values: args.values.clone() };
    let values: Vec<_> = args.values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let what = format!("lists.{} {}", if denies { "deny" } else { "allow" }, values.join(" "));
    change(&mut place, now, &what, &[effect], &args.timed)
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
    let Published { name, text, .. } = place.find(None)?.published.clone();
    let published = Published { name, text, overrides: overrides_text(&overrides), ..Published::default() };
    let rules = read_published(&published, 0).map_err(|problems| anyhow!(Usage(problems.to_string())))?;
    let done = if timed.remove { "removed: " } else { "" };
    let reason = timed.reason.clone().unwrap_or_default();
    timed.change.publish(place, what, (rules, published), &format!("{done}{}{}", kind(effects), separated(&reason)))
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

/// Returns the overrides in force at this instant.
fn in_force(place: &PublishedRules, now: Timestamp) -> anyhow::Result<Vec<Override>> {
    let text = place.in_force().map(|kept| &*kept.published.overrides).unwrap_or_default();
    let mut overrides = read_overrides(text)?;
    overrides.retain(|known| known.end.until > now);
    Ok(overrides)
}

/// Returns the named rules, or the only rule to which the caller may be an exception.
fn rules_for(set: &RuleSet, name: &str, named: &[String]) -> anyhow::Result<Vec<String>> {
    let fits = |rule: &&Arc<tollgate_core::rules::Rule>| {
        !rule.deny && (name == TIER || rule.per.first().is_some_and(|first| **first == *name))
    };
    let all: Vec<String> = set.rules.iter().filter(fits).map(|rule| rule.name.to_string()).collect();
    for rule in named {
        if !all.contains(rule) {
            let text = format!("no rule `{rule}` counts by `{name}` first; these do: {}", shown(&all));
            bail!(Usage(text));
        }
    }
    match &all[..] {
        _ if !named.is_empty() => Ok(named.to_vec()),
        [only] => Ok(vec![only.clone()]),
        [] => {
            let first = set.rules.iter().filter_map(|rule| rule.per.first()).map(ToString::to_string);
            let mut known: Vec<String> = first.collect();
            known.dedup();
            bail!(Usage(format!("no rule counts by `{name}` first; the rules count by: {}", shown(&known))))
        }
        several => bail!(Usage(format!("several rules count by `{name}`: {}; name one with --rule", shown(several)))),
    }
}

fn shown(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
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

/// Returns the rule or list, the callers and the quota of an override.
fn words(effect: &OverrideEffect) -> (String, String, String) {
    match effect {
        OverrideEffect::Quota { rule, is_tier, of, quota } => {
            (rule.clone(), if *is_tier { format!("tier={of}") } else { of.clone() }, quota.clone())
        }
        OverrideEffect::Listed { denies, values } => {
            let values: Vec<_> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let list = if *denies { "lists.deny" } else { "lists.allow" };
            (list.to_owned(), values.join(" "), String::new())
        }
    }
}

fn override_json(Override { effect, end }: &Override) -> Value {
    let (rule, callers, quota) = words(effect);
    json!({ "rule": rule, "callers": callers, "quota": quota, "until_ms": end.until.as_ms(), "reason": *end.reason })
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

fn duration_ms(text: &str) -> Result<u64, &'static str> {
    parse_duration_ms(text).filter(|ms| *ms > 0).ok_or("write a time such as 30min, 1h or 7d")
}
