//! `tollgate man`: one manual page for each command, from the definitions that parse the command line.
//!
//! The pages name the variable of each flag, and never its value. Hidden commands have no page.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use tollgate_command::exit::Exit;
use tollgate_command::output;

const EXIT_STATUS: [(&str, &str); 5] = [
    ("0", "Done, or the call may pass."),
    ("1", "Failed."),
    ("2", "Wrong usage, or invalid rules."),
    ("3", "The call is denied."),
    ("4", "No agent or aggregator answered."),
];

/// Blank date of a page: `man` would take the next field for it if it were empty.
const DATE: &str = " ";

/// Writes a manual page for each command into a folder
///
/// The package installs them. To read one in a folder: man -l FOLDER/tollgate-agent.1
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// The folder; it is created if it does not exist
    folder: PathBuf,
}

pub(crate) fn run(ManArgs { folder }: &ManArgs, whole: Command) -> anyhow::Result<Exit> {
    fs::create_dir_all(folder).with_context(|| format!("{}: the folder cannot be created", folder.display()))?;
    let examples = whole.get_after_help().map(ToString::to_string).unwrap_or_default();
    let source = format!("{} {}", whole.get_name(), whole.get_version().unwrap_or_default());
    let mut whole = whole.after_help(None);
    whole.build();
    let written = write_pages(&whole, folder, &source, &sections_of_whole(&examples))?;
    output::note(format_args!("{}: {written} manual pages", folder.display()));
    Ok(Exit::Done)
}

/// Writes the page of a command, which ends with more sections, and those of its subcommands. Returns their number.
fn write_pages(command: &Command, folder: &Path, source: &str, more: &str) -> anyhow::Result<usize> {
    let man = Man::new(command.clone()).date(DATE).source(source).manual("Tollgate");
    let mut page = Vec::new();
    man.render(&mut page)?;
    page.extend(more.as_bytes());
    let path = folder.join(man.get_filename());
    fs::write(&path, page).with_context(|| format!("{}: the page cannot be written", path.display()))?;
    let mut written = 1;
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        written += write_pages(inner, folder, source, "")?;
    }
    Ok(written)
}

/// Returns the last sections of the page of the whole program.
fn sections_of_whole(examples: &str) -> String {
    let mut page = Roff::new();
    page.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_STATUS {
        page.control("TP", []).text([roman(code)]).text([roman(meaning)]);
    }
    page.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.to_roff()
}
