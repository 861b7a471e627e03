//! Replay: an access log runs through one simulated agent or a fleet, to show which callers a rule would have limited.
//!
//! Every call arrives at the time of its line, is decided by the code of production, and is compared with an exact count of the
//! same calls at the instant of its answer. One agent answers without delays.

mod log;
mod recording;
mod address_counts;
mod input;
mod agents;
mod report;
mod log_sample;

use std::collections::HashMap;
use std::io::Write;

use foldhash::fast::RandomState;
use indicatif::ProgressBar;
use serde_json::json;
use tollgate::RuleSet;
use tollgate_core::counter::{CounterId, DigestKey};
use tollgate_core::decision::Decision;
use tollgate_core::one_line::printable;
use tollgate_core::rules::{MatchResult, ResolvedCall};

use crate::AnsweredCall;
use crate::oracle::Oracle;

pub use agents::{AGENTS_MAX, ReplayFleet, SIGNAL_DELAY_MS_MAX, STORE_DELAY_MS_MAX};
pub use input::{BadLine, DamagedArchive, InputError, ReadCounts, Reading, ReplayInput};
pub use log::{ClientChoice, ClientSource, LogOptions};
pub use log_sample::LogSample;
pub use recording::Recording;
pub use report::{CallerReport, ReplayReport, ReplayTimeline, RuleReport};

use agents::ReplayAgents;

const TIMELINE_COLUMNS: u64 = 60;
/// Number of the most limited callers in the report.
const CALLERS_SHOWN: usize = 10;

struct CounterTally {
    caller: CallerReport,
    oracle: Oracle,
}

struct ReplayTally<'r> {
    rules: &'r RuleSet,
    key: DigestKey,
    counters: HashMap<(usize, CounterId), CounterTally, RandomState>,
    report: ReplayReport,
}

/// Replays a recording against rules, through a simulated fleet or one agent with its own table. Each decision is written to
/// `decisions` as one line of JSON, in the order of the answers.
///
/// # Errors
/// If `decisions` cannot be written.
pub fn run(
    input: &ReplayInput,
    rules: &RuleSet,
    fleet: Option<ReplayFleet>,
    mut decisions: Option<&mut dyn Write>,
    progress: &ProgressBar,
) -> std::io::Result<ReplayReport> {
    let recording = &input.recording;
    let mut tally = ReplayTally::new(input, rules, fleet);
    let mut agents = ReplayAgents::new(rules, fleet, tally.report.from);
    let mut count = |answers: Vec<AnsweredCall<'_>>| {
        for answered in answers {
            if let Some(out) = decisions.as_deref_mut() {
                write_decision(out, fleet.is_some(), &answered)?;
            }
            tally.count(&answered);
        }
        std::io::Result::Ok(())
    };
    progress.set_length(recording.len() as u64);
    for (at, call) in progress.wrap_iter(recording.calls()) {
        count(agents.call(at, call))?;
    }
    count(agents.finish())?;
    progress.finish_and_clear();
    tally.explain_idle_rules(recording);
    Ok(tally.finish())
}

fn write_decision(out: &mut dyn Write, is_of_fleet: bool, answered: &AnsweredCall<'_>) -> std::io::Result<()> {
    let decision = &answered.decision;
    let descriptors: serde_json::Map<_, _> =
        answered.call.descriptors().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let mut line = json!({
        "time_ms": answered.arrived.as_ms(),
        "descriptors": descriptors,
        "cost": answered.call.cost(),
        "allowed": decision.allowed,
        "rule": decision.status.as_ref().map(|status| &*status.rule),
        "remaining": decision.status.as_ref().map(|status| status.remaining),
    });
    if is_of_fleet {
        line["agent"] = (answered.agent + 1).into();
        line["answered_ms"] = answered.answered.as_ms().into();
    }
    writeln!(out, "{}", printable(&line.to_string()))
}

fn denied_by(decision: &Decision) -> Option<&str> {
    decision.status.as_ref().filter(|_| !decision.allowed).map(|status| &*status.rule)
}

impl<'r> ReplayTally<'r> {
    fn new(input: &ReplayInput, rules: &'r RuleSet, fleet: Option<ReplayFleet>) -> Self {
        let ReplayInput { recording, lines, .. } = input;
        let (from, to) = recording.span().unwrap_or_default();
        let column_ms = (to.ms_since(from) / TIMELINE_COLUMNS + 1).max(1_000);
        let columns = to.ms_since(from) / column_ms + 1;
        let report = ReplayReport {
            calls: recording.len() as u64,
            fleet,
            formats: lines.formats.clone(),
            bad_lines: lines.bad,
            bad_lines_shown: lines.bad_shown.clone(),
            messages: lines.messages,
            disordered: lines.disordered,
            warnings: input.warnings(),
            rules: rules.rules.iter().map(|rule| RuleReport::new(rule)).collect(),
            from,
            to,
            timeline: ReplayTimeline { column_ms, columns: vec![(0, 0); usize::try_from(columns).unwrap_or(1)] },
            ..ReplayReport::default()
        };
        Self { rules, key: DigestKey::default(), counters: HashMap::default(), report }
    }

    fn count(&mut self, answered: &AnsweredCall<'_>) {
        let (at, allowed) = (answered.answered, answered.decision.allowed);
        let denied_by = denied_by(&answered.decision);
        let report = &mut self.report;
        *(if allowed { &mut report.admitted } else { &mut report.denied }) += 1;
        let column =
            usize::try_from(answered.arrived.ms_since(report.from) / report.timeline.column_ms).unwrap_or_default();
        if let Some((calls, denied)) = report.timeline.columns.get_mut(column) {
            *calls += 1;
            *denied += u64::from(!allowed);
        }
        let call = self.rules.resolved(&answered.call);
        for applicable in self.rules.applicable(&call) {
            let (index, rule) = (applicable.index, applicable.rule);
            let is_denied_here = denied_by == Some(&*rule.name);
            let counts = &mut report.rules[index];
            counts.calls += 1;
            counts.admitted += u64::from(allowed);
            counts.denied += u64::from(is_denied_here);
            let Some(policy) = applicable.policy else { continue };
            let id = self.key.counter(&rule.name, rule.values(&call));
            let CounterTally { caller, oracle } = self.counters.entry((index, id)).or_insert_with(|| CounterTally {
                caller: CallerReport { caller: label(&rule.per, &call), rule: rule.name.clone(), calls: 0, denied: 0 },
                oracle: Oracle::new(policy.quota),
            });
            let cost = rule.cost_of(&call, answered.call.cost());
            caller.calls += 1;
            if allowed {
                counts.over_admitted += u64::from(oracle.admit(at, cost));
                counts.worst_window = counts.worst_window.max(oracle.units());
            } else if is_denied_here {
                caller.denied += 1;
                counts.under_admitted += u64::from(oracle.has_room(at, cost));
            }
        }
    }

    /// Counts the reasons why a rule applied to none of the calls.
    fn explain_idle_rules(&mut self, recording: &Recording) {
        let idle = |rule: &RuleReport| rule.calls == 0;
        if !self.report.rules.iter().any(idle) {
            return;
        }
        for (_, call) in recording.calls() {
            let explained = self.rules.explain(&call).rules;
            for (rule, explained) in self.report.rules.iter_mut().zip(explained).filter(|(rule, _)| idle(rule)) {
                let reason = match explained.result {
                    MatchResult::Mismatch { descriptor, value: Some(_), .. } => {
                        format!("do not match its {descriptor}")
                    }
                    MatchResult::Mismatch { descriptor, .. } | MatchResult::MissingDescriptor { descriptor } => {
                        format!("have no {descriptor}")
                    }
                    MatchResult::OtherDescriptor { descriptor } => format!("have {descriptor}, beside an exact match"),
                    MatchResult::Wider { than } => format!("go to {}, the narrower rule of its group", than.name),
                    MatchResult::Replaced { by } => format!("go to {by}, which replaces it"),
                    MatchResult::Applies { .. } | MatchResult::OutOfScope => continue,
                };
                *rule.idle_reasons.entry(reason).or_default() += 1;
            }
        }
    }

    fn finish(mut self) -> ReplayReport {
        for (index, _) in self.counters.keys() {
            self.report.rules[*index].counters += 1;
        }
        let callers = self.counters.into_values().map(|counter| counter.caller);
        let mut limited: Vec<CallerReport> = callers.filter(|caller| caller.denied > 0).collect();
        limited.sort_unstable_by(|a, b| b.denied.cmp(&a.denied).then_with(|| a.caller.cmp(&b.caller)));
        self.report.limited_callers = limited.len() as u64;
        limited.truncate(CALLERS_SHOWN);
        self.report.most_limited = limited;
        self.report
    }
}

fn label(per: &[std::sync::Arc<str>], call: &ResolvedCall<'_>) -> String {
    if per.is_empty() {
        return "(all calls)".to_owned();
    }
    let pairs = per.iter().map(|name| format!("{name}={}", call.get(name).unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(" ")
}
