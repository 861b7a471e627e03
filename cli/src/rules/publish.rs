//! `tollgate rules publish`: publishes a rules file to Kafka, to Redis, or to both.
//!
//! The generation is the offset on `rules`, or counts from 1 in a fleet that publishes to Redis alone. Before such a fleet
//! moves to Kafka, the key of the rules in Redis is deleted: its generations may be higher, and the error says so.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate::RulesFileError;
use tollgate_command::exit::Exit;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::messages::rules::Published;
use tollgate_files::read_text;
use tollgate_rules::{FILE_LEN_MAX, read_published};

use super::change::ChangeArgs;
use super::published::PublishedArgs;

/// Publishes a rules file to all agents that follow the published rules
///
/// Prints the difference to the rules in force, and asks on a terminal. With --kafka the file goes to the topic `rules`;
/// --redis beside it keeps a copy for agents that start while Kafka is unavailable. A fleet without Kafka uses --redis alone.
/// The overrides in force stay. Exit code: 0 done, 1 not published, 2 the rules are not valid, 3 --dry-run found a difference.
#[derive(clap::Args)]
pub(crate) struct PublishArgs {
    /// The rules, as YAML
    file: PathBuf,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    place: PublishedArgs,
}

pub(crate) fn run(args: &PublishArgs) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    // The file may be a pipe, which is read once.
    let text = read_text(&args.file, FILE_LEN_MAX).map_err(RulesFileError::from)?;
    let what = args.file.display().to_string();
    // Errors name the path, and what is published has only the name of the file.
    tollgate_rules::from_yaml(&what, &text, clock.now().as_ms())?;
    let name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned();
    let mut place = args.place.open(clock, true)?;
    let overrides = place.in_force().map(|before| before.published.overrides.clone()).unwrap_or_default();
    let published = Published { name, text, overrides, ..Published::default() };
    let rules = read_published(&published, 0)?;
    args.change.publish(&mut place, &what, (rules, published), "")
}
