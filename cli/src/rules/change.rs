//! The steps of every command that changes the published rules: the difference, the question, the publication.

use std::io::{BufRead, IsTerminal, Write, stderr, stdin};

use anyhow::bail;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output;
use tollgate_core::messages::rules::{COMMENT_LEN_MAX, Published};

use super::draft::Draft;
use super::published::{KeptPublication, PublishedRules, author};

/// Flags of a command that changes the published rules.
#[derive(clap::Args)]
pub(super) struct ChangeArgs {
    /// Reason of the change, kept in the history
    #[arg(long, value_name = "TEXT", value_parser = short_text)]
    comment: Option<String>,
    /// Author of the change, kept in the history [default: the user and the machine]
    #[arg(long, value_name = "NAME", value_parser = short_text)]
    author: Option<String>,
    /// Print the difference to the rules in force and publish nothing; exit code 3 if there is one
    #[arg(long)]
    dry_run: bool,
    /// Do not ask on a terminal
    #[arg(long, short)]
    yes: bool,
}

impl ChangeArgs {
    pub(super) fn author(&self) -> String {
        self.author.clone().unwrap_or_else(author)
    }

    /// Prints the difference between the rules in force and the new ones, and the warnings about what changes; asks on a terminal,
    /// and publishes. `what` is the subject of the last line, such as the name of a file. Without a comment of the user, `comment`
    /// is kept.
    pub(super) fn publish(
        &self,
        place: &mut PublishedRules,
        what: &str,
        draft: Draft,
        comment: &str,
    ) -> anyhow::Result<Exit> {
        let before = place.in_force();
        let none = || Ok(tollgate_rules::from_yaml("none", "rules: []", 0)?);
        let from = before.map_or_else(none, KeptPublication::rules);
        for warning in draft.warnings(place, from.as_ref().ok()) {
            output::note(format_args!("warning: {warning}"));
        }
        let is_changed = match &from {
            Ok(from) => {
                let difference = draft.difference(from);
                match (&difference, before) {
                    (Some(table), _) => output::say(table)?,
                    (None, Some(before)) => {
                        output::say(format_args!(
                            "No difference to generation {}, which is in force.",
                            before.generation
                        ))?;
                    }
                    (None, None) => output::say("No rules are in force, and these limit nothing.")?,
                }
                difference.is_some()
            }
            Err(error) => {
                output::note(format_args!("warning: {error:#}; the difference to it is not shown"));
                true
            }
        };
        if self.dry_run {
            return Ok(if is_changed { Exit::Denied } else { Exit::Done });
        }
        if is_changed && !self.yes && stdin().is_terminal() && stderr().is_terminal() && !is_confirmed()? {
            bail!("nothing is published; the rules in force stay in force");
        }
        let comment = self.comment.clone().unwrap_or_else(|| comment.to_owned());
        let generation = place.publish(Published { author: self.author(), comment, ..draft.published })?;
        output::say(format_args!("{what}: published as generation {generation}"))?;
        Ok(Exit::Done)
    }
}

/// Refuses texts that a history cannot show in a line.
pub(super) fn short_text(text: &str) -> Result<String, Usage> {
    let text = text.trim();
    let is_short = text.chars().count() <= COMMENT_LEN_MAX && !text.chars().any(char::is_control);
    let refusal = || Usage(format!("write one line of at most {COMMENT_LEN_MAX} characters"));
    is_short.then(|| text.to_owned()).ok_or_else(refusal)
}

fn is_confirmed() -> anyhow::Result<bool> {
    let _ = write!(stderr(), "Publish? [y/N] ");
    let mut answer = String::new();
    stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
