//! `tollgate rules publish`: publishes rules files to Kafka, to Redis, or to both.
//!
//! The generation is the offset on `rules`, or counts from 1 in a fleet that publishes to Redis alone. When such a
//! fleet moves to Kafka, its generations and overrides go on there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate::{RulesFileError, RulesFiles};
use tollgate_command::exit::Exit;
use tollgate_command::output;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_rules::parts_text;

use super::change::ChangeArgs;
use super::draft::Draft;
use super::published::PublishedArgs;

/// Publishes rules to all agents that follow the published rules
///
/// Prints the difference to the rules in force, and asks on a terminal. With --kafka the rules go to the topic `rules`;
/// --redis beside it keeps a copy for agents that start while Kafka is unavailable. A fleet without Kafka uses --redis alone.
/// The overrides in force stay. Exit code: 0 done, 1 not published, 2 the rules are not valid, 3 --dry-run found a difference.
#[derive(clap::Args)]
pub(crate) struct PublishArgs {
    /// The rules, as YAML, or folders with *.yaml files, which are published as one set
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    change: ChangeArgs,
    #[command(flatten)]
    place: PublishedArgs,
}

pub(crate) fn run(args: &PublishArgs) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    // A file may be a pipe, which is read once.
    let mut files = RulesFiles::read(&args.files).map_err(RulesFileError::from)?;
    // Errors name the paths, and what is published has only the names of the files.
    files.rules(clock.now())?;
    for warning in &files.warnings {
        output::note(format_args!("warning: {warning}"));
    }
    let what = files.name;
    let names: Vec<String> = args.files.iter().map(|path| file_name(path)).collect();
    let text = match &mut files.parts[..] {
        [part] if !args.files[0].is_dir() => std::mem::take(&mut part.text),
        parts => {
            let names: HashSet<_> = parts.iter().map(|part| file_name(Path::new(&part.name))).collect();
            // Two files of one name keep their paths, so that a problem names the right one.
            if names.len() == parts.len() {
                for part in &mut *parts {
                    part.name = file_name(Path::new(&part.name));
                }
            }
            parts_text(parts)
        }
    };
    let mut place = args.place.open(Arc::clone(&clock), true)?;
    let draft = Draft::of_file(&place, clock.now(), names.join(", "), text)?;
    args.change.publish(&mut place, &what, draft, "")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
