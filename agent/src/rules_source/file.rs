//! Rules from a file, reloaded while the agent runs. A broken file never replaces a good set.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_common::clock::{Clock, Timestamp};
use tollgate_common::problem::Problems;
use tollgate_common::rule::RuleSet;

use crate::limiter::Limiter;

/// How often the file is looked at.
const POLL: Duration = Duration::from_millis(500);

/// Why rules could not be read from a file.
#[derive(Debug, thiserror::Error)]
pub enum RulesFileError {
    /// The file cannot be read.
    #[error("{path}: {error}; check the path and its permissions")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no rules file.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

/// Reads a rules file; without a `version:` of its own its generation is `now` in ms.
///
/// # Errors
/// When it cannot be read or is not valid; each problem with its line, reason and remedy.
pub fn read_rules(path: &Path, now: Timestamp) -> Result<RuleSet, RulesFileError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| RulesFileError::Unreadable { path: path.to_owned(), error })?;
    Ok(RuleSet::from_yaml(&path.display().to_string(), &text, now.as_ms())?)
}

/// Looks after the file on a thread of its own until told to stop.
pub(crate) fn watch(
    path: PathBuf,
    limiter: Arc<Limiter>,
    clock: Arc<dyn Clock>,
    stop: Arc<AtomicBool>,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    let mut known = std::fs::read(&path).ok();
    std::thread::Builder::new().name("tollgate-rules".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(POLL);
            let content = std::fs::read(&path).ok();
            if content == known {
                continue;
            }
            known = content;
            reload(&path, &limiter, clock.now());
        }
    })
}

fn reload(path: &Path, limiter: &Limiter, now: Timestamp) {
    let node = &limiter.settings().node;
    let in_force = limiter.with_rules(|rules| rules.generation);
    let refused = match read_rules(path, now) {
        Ok(rules) => {
            let (generation, count) = (rules.generation, rules.rules.len());
            for warning in &rules.warnings {
                tracing::warn!(%node, "{warning}");
            }
            match limiter.set_rules(rules) {
                Ok(()) => {
                    tracing::info!(%node, generation, rules = count, "rules reloaded");
                    return;
                }
                Err(in_force) => format!(
                    "{}: version {generation} is not newer than {in_force}, which is in force; raise `version:` above it, or restart",
                    path.display()
                ),
            }
        }
        Err(error) => error.to_string(),
    };
    tracing::error!(%node, "rules refused, generation {in_force} stays in force; mend the file, it is read again by itself:\n{refused}");
    limiter.refuse_rules(refused);
}
