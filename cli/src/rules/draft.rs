//! Rules that a command is about to publish, and the problems with them. Nobody writes the text of overrides by hand, so a problem
//! names the override and not its line, and the command that ends it.

use std::sync::Arc;

use comfy_table::Table;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::RuleSet;
use tollgate_core::rules::problem::{Problem, Problems};
use tollgate_rules::{Override, OverrideEffect, override_at, overrides_text, read_overrides, read_published};

use super::diff::difference_table;
use super::override_words::{CallerNames, label, removal_of};
use super::published::PublishedRules;

/// Rules and overrides that are about to be published.
pub(super) struct Draft {
    pub(super) rules: RuleSet,
    pub(super) published: Published,
    overrides: Vec<Override>,
    changes: Changes,
    /// Instant at which the overrides were in force.
    now: Timestamp,
}

/// Part of the published rules that a command changes.
enum Changes {
    File,
    /// The last overrides, of this number.
    Overrides(usize),
}

impl Changes {
    fn new_overrides(&self) -> usize {
        match self {
            Self::File => 0,
            Self::Overrides(new) => *new,
        }
    }
}

impl Draft {
    /// Returns a new file with the overrides in force.
    pub(super) fn of_file(place: &PublishedRules, now: Timestamp, name: String, text: String) -> anyhow::Result<Self> {
        let overrides = in_force(place, now)?;
        Self::new(place, now, Published { name, text, ..Published::default() }, overrides, Changes::File)
    }

    /// Returns the file in force with other overrides, of which the last ones, of this number, are new.
    pub(super) fn of_overrides(
        place: &PublishedRules,
        now: Timestamp,
        overrides: Vec<Override>,
        new: usize,
    ) -> anyhow::Result<Self> {
        let Published { name, text, .. } = place.find(None)?.published.clone();
        Self::new(place, now, Published { name, text, ..Published::default() }, overrides, Changes::Overrides(new))
    }

    fn new(
        place: &PublishedRules,
        now: Timestamp,
        file: Published,
        overrides: Vec<Override>,
        changes: Changes,
    ) -> anyhow::Result<Self> {
        let published = Published { overrides: overrides_text(&overrides), ..file };
        let rules = read_published(&published, 0);
        let new = changes.new_overrides();
        let rules = rules
            .map_err(|Problems { problems }| Problems { problems: in_words(place, &overrides, new, &problems) })?;
        Ok(Self { rules, published, overrides, changes, now })
    }

    /// Returns the difference to the rules in force as a table; none without one. What has ended is no difference.
    pub(super) fn difference(&self, from: &RuleSet) -> Option<Table> {
        difference_table(&unended(from, self.now), &unended(&self.rules, self.now))
    }

    /// Returns the warnings of what the command changes, given the rules in force if they can be read.
    pub(super) fn warnings(&self, place: &PublishedRules, from: Option<&RuleSet>) -> Vec<Problem> {
        let before = place.in_force().map(|before| read_overrides(&before.published.overrides).unwrap_or_default());
        let before = before.unwrap_or_default();
        let known = from.map_or(&[][..], |from| &from.warnings);
        let known = in_words(place, &before, 0, known);
        let new = self.changes.new_overrides();
        let is_of_change = |warning: &Problem| match (override_at(&warning.place), &self.changes) {
            (None, Changes::File) => true,
            (None, Changes::Overrides(_)) => false,
            (Some(at), _) => at + new >= self.overrides.len(),
        };
        let told = in_words(place, &self.overrides, new, &self.rules.warnings);
        let with_raw = self.rules.warnings.iter().zip(told);
        let shown = with_raw.filter(|(raw, told)| is_of_change(raw) || !known.contains(told));
        let mut warnings: Vec<Problem> = shown.map(|(_, told)| told).collect();
        warnings.extend(from.map(|from| self.moved(from)).into_iter().flatten());
        warnings
    }

    /// Returns warnings of the overrides of rules that count by another descriptor than before.
    fn moved(&self, from: &RuleSet) -> impl Iterator<Item = Problem> {
        let first = |set: &RuleSet, rule: &str| {
            let rule = set.rules.iter().find(|known| *known.name == *rule);
            rule.and_then(|rule| rule.per.first().cloned())
        };
        self.overrides.iter().filter_map(move |known| {
            let OverrideEffect::Quota { rule, is_tier: false, of, .. } = &known.effect else { return None };
            let (before, after) = (first(from, rule)?, first(&self.rules, rule)?);
            let text = format!(
                "the rule counted by `{before}` first, and now counts by `{after}`, so the override is for {after}={of} from now on; if it is not meant for that caller, end it with `{}`",
                removal_of(&after, of, rule)
            );
            (before != after).then(|| Problem { place: label(known), text })
        })
    }
}

/// Returns rules without the exceptions and list entries that have ended.
fn unended(set: &RuleSet, now: Timestamp) -> RuleSet {
    let mut set = set.clone();
    set.lists.timed.retain(|entry| entry.end.until > now);
    for rule in set.rules.iter_mut().filter(|rule| !rule.timed.is_empty()) {
        Arc::make_mut(rule).timed.retain(|exception| exception.end.until > now);
    }
    set
}

/// Returns the overrides in force at this instant.
pub(super) fn in_force(place: &PublishedRules, now: Timestamp) -> anyhow::Result<Vec<Override>> {
    let text = place.in_force().map(|kept| &*kept.published.overrides).unwrap_or_default();
    let mut overrides = read_overrides(text)?;
    overrides.retain(|known| known.end.until > now);
    Ok(overrides)
}

/// Returns problems with the override in place of its line, and with the command that ends it unless it is new. The last
/// overrides, of this number, are new.
fn in_words(place: &PublishedRules, overrides: &[Override], new: usize, problems: &[Problem]) -> Vec<Problem> {
    let found = |problem: &Problem| {
        let at = override_at(&problem.place)?;
        Some((overrides.get(at)?, at + new >= overrides.len()))
    };
    let old = problems.iter().filter_map(found).filter(|(_, is_new)| !is_new);
    let names = CallerNames::of(place, old.map(|(known, _)| &known.effect));
    let told = |problem: &Problem| match found(problem) {
        None => problem.clone(),
        Some((known, true)) => Problem { place: label(known), text: problem.text.clone() },
        Some((known, false)) => {
            let text = format!("{}; to end the override, run `{}`", problem.text, names.removal(&known.effect));
            Problem { place: label(known), text }
        }
    };
    problems.iter().map(told).collect()
}
