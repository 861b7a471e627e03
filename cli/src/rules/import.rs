//! `tollgate rules import`: the configuration of another limiter as a rules file.

use std::path::PathBuf;

use anyhow::Context;
use tollgate::{RulesFileError, import_envoy};
use tollgate_command::exit::Exit;
use tollgate_command::output;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_files::read_text;
use tollgate_rules::FILE_LEN_MAX;
use tollgate_rules::import::{Foreign, Imported, from_envoy, from_params, is_envoy};

use crate::limits::EnvoyFlags;

/// Writes a rules file from the configuration of another limiter, to standard output
///
/// A folder is a configuration of envoyproxy/ratelimit (a domain in each file, or the manifest of a `ConfigMap`). A
/// file is one of it, or one of rules with `params` (a capacity and a refill rate, or a limit and a window). Warnings
/// about dropped or changed parts go to standard error. Exit code: 0 done, 2 it cannot be imported.
#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    /// The folder or file
    from: PathBuf,
    #[command(flatten)]
    envoy: EnvoyFlags,
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<Exit> {
    let name = args.from.display().to_string();
    let imported = if args.from.is_dir() {
        import_envoy(&args.from, &args.envoy.settings())?
    } else {
        let text = read_text(&args.from, FILE_LEN_MAX).map_err(RulesFileError::from);
        let text = text.context("name a folder of envoyproxy/ratelimit, or a file")?;
        let file = Foreign { name: &name, text: &text };
        if is_envoy(&text) { from_envoy(&[file], &args.envoy.settings())? } else { from_params(file)? }
    };
    let Imported { text, warnings } = imported;
    // The output is parsed as an agent would parse it.
    let set = tollgate_rules::from_yaml(&format!("{name} (imported)"), &text, SystemClock::start().now().as_ms())?;
    // Warnings of the second parse name lines of the output, which nobody has written.
    for warning in &warnings {
        output::note(format_args!("warning: {warning}"));
    }
    output::say(text.trim_end())?;
    output::note(format_args!("{name}: {} rules imported", set.rules.len()));
    Ok(Exit::Done)
}
