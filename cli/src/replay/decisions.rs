//! File of the decisions of a replay, which must be none of the files that the replay reads.

use std::fs::{File, Metadata};
use std::io::{BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate_command::exit::Usage;

use crate::limits::Limits;

/// Opened file, and the beginning of an error of writing to it.
pub(super) struct DecisionFile {
    pub(super) out: Box<dyn Write>,
    pub(super) failed: &'static str,
}

/// Fails if the decisions would be written into a file that is read, whatever path leads to it.
pub(super) fn check_target(decisions: &Path, logs: &[PathBuf], limits: &Limits) -> Result<(), Usage> {
    let Some(target) = facts(decisions, &std::io::stdout()) else { return Ok(()) };
    let rules = match limits {
        // Files that cannot be listed are reported where they are read.
        Limits::From(source) => source.files().unwrap_or_default(),
        _ => Vec::new(),
    };
    for read in logs.iter().chain(&rules) {
        let is_same =
            facts(read, &std::io::stdin()).is_some_and(|read| (read.dev(), read.ino()) == (target.dev(), target.ino()));
        if is_same {
            return Err(Usage(format!(
                "--decisions {} is the same file as {}, which is read; name another file",
                decisions.display(),
                read.display()
            )));
        }
    }
    Ok(())
}

/// Creates the file; `-` is standard output.
pub(super) fn create(path: &Path) -> anyhow::Result<DecisionFile> {
    if path == Path::new("-") {
        let out = Box::new(BufWriter::new(std::io::stdout()));
        return Ok(DecisionFile { out, failed: "cannot write to standard output" });
    }
    let file = File::create(path).with_context(|| format!("{}: cannot write decisions", path.display()))?;
    let out = Box::new(BufWriter::with_capacity(1 << 16, file));
    Ok(DecisionFile { out, failed: "--decisions: cannot write decisions" })
}

/// Returns the facts about a regular file; nothing if there is none. `-` is a standard stream.
fn facts(path: &Path, standard: &impl AsFd) -> Option<Metadata> {
    let facts = if path == Path::new("-") {
        File::from(standard.as_fd().try_clone_to_owned().ok()?).metadata()
    } else {
        std::fs::metadata(path)
    };
    facts.ok().filter(Metadata::is_file)
}
