//! `tollgate rules history`, `get` and `rollback`: the publications that are kept.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format, table};
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

use super::change::ChangeArgs;
use super::draft::Draft;
use super::published::{KeptPublication, PublishedArgs, utc};

/// Lists the last published rules: generation, time, author, file and comment
///
/// The last 50 publications are kept. The newest one is in force.
#[derive(clap::Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    place: PublishedArgs,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

/// Prints the published rules in force, or those of an earlier generation
///
/// The text goes to standard output as it was published, and its overrides behind it as comments.
#[derive(clap::Args)]
pub(crate) struct GetArgs {
    /// Generation, as `rules history` lists them [default: the one in force]
    generation: Option<Generation>,
    #[command(flatten)]
    place: PublishedArgs,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

/// Publishes the rules of an earlier generation again, as a new generation
///
/// Prints the difference to the rules in force, and asks on a terminal. The overrides in force stay.
#[derive(clap::Args)]
pub(crate) struct RollbackArgs {
    /// Generation, as `rules history` lists them
    generation: Generation,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    place: PublishedArgs,
}

pub(crate) fn history(args: &HistoryArgs) -> anyhow::Result<Exit> {
    let place = args.place.open(Arc::new(SystemClock::start()), false)?;
    let kept: Vec<_> = place.kept().iter().rev().collect();
    let json = json!({ "publications": kept.iter().map(|kept| publication_json(kept)).collect::<Vec<_>>() });
    if kept.is_empty() {
        output::say_as(args.format, "No rules are published yet.", json)?;
        return Ok(Exit::Done);
    }
    let rows = kept.iter().map(|KeptPublication { generation, at, published }| {
        let Published { name, author, comment, .. } = published;
        [generation.to_string(), utc(*at), author.clone(), name.clone(), comment.clone()]
    });
    let text = table(&["GENERATION", "PUBLISHED", "BY", "FILE", "COMMENT"], rows);
    output::say_as(args.format, text, json)?;
    Ok(Exit::Done)
}

pub(crate) fn get(args: &GetArgs) -> anyhow::Result<Exit> {
    let place = args.place.open(Arc::new(SystemClock::start()), false)?;
    let kept = place.find(args.generation)?;
    let Published { text, overrides, .. } = &kept.published;
    let mut json = publication_json(kept);
    (json["text"], json["overrides"]) = (text.as_str().into(), overrides.as_str().into());
    let mut whole = text.trim_end().to_owned();
    if !overrides.is_empty() {
        whole += "\n\n# Overrides beside the file:";
        overrides.lines().for_each(|line| whole.extend(["\n# ", line]));
    }
    output::say_as(args.format, whole, json)?;
    Ok(Exit::Done)
}

pub(crate) fn rollback(args: &RollbackArgs) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut place = args.place.open(Arc::clone(&clock), true)?;
    let Published { name, text, .. } = place.find(Some(args.generation))?.published.clone();
    let draft = Draft::of_file(&place, clock.now(), name.clone(), text)?;
    let comment = format!("rollback to generation {}", args.generation);
    args.change.publish(&mut place, &name, draft, &comment)
}

fn publication_json(kept: &KeptPublication) -> Value {
    let KeptPublication { generation, at, published } = kept;
    let Published { name, author, comment, .. } = published;
    json!({ "generation": generation, "published_ms": at.as_ms(), "author": author, "file": name, "comment": comment })
}
