//! Where an agent's rules come from while it runs: files, or what was published on the bus or in the store.
//!
//! Whatever the source, a broken or older set never replaces the one in force.

mod file;
mod envoy;
mod watch;
mod published;

use std::path::PathBuf;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;
use tollgate_core::rules::problem::Problems;
use tollgate_rules::import::EnvoySettings;

pub use envoy::import_envoy;
pub use file::read_rules;
pub(crate) use published::Follower;
pub(crate) use watch::follow;

/// Files that hold rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RulesFrom {
    /// A rules file of our own.
    File(PathBuf),
    /// A folder with a configuration of envoyproxy/ratelimit.
    Envoy(PathBuf, EnvoySettings),
}

/// Why rules could not be read from files.
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
    /// The folder holds no configuration.
    #[error("{path}: no file here ends in .yaml or .yml; name the folder that holds the configuration")]
    Nothing {
        /// Which folder.
        path: PathBuf,
    },
    /// It is no rules file.
    #[error(transparent)]
    Invalid(#[from] Problems),
}

impl RulesFrom {
    /// Reads the rules; without a version of their own their generation is `now` in ms.
    ///
    /// # Errors
    /// Returns an error if they cannot be read or are not valid; each problem with its place, reason and remedy.
    pub fn read(&self, now: Timestamp) -> Result<RuleSet, RulesFileError> {
        match self {
            Self::File(path) => read_rules(path, now),
            Self::Envoy(folder, settings) => envoy::read_envoy(folder, settings, now),
        }
    }

    /// What the files say, to tell whether they have changed.
    fn content(&self) -> Option<Vec<u8>> {
        match self {
            Self::File(path) => std::fs::read(path).ok(),
            Self::Envoy(folder, _) => {
                let files = envoy::files(folder).ok()?;
                Some(
                    files
                        .into_iter()
                        .flat_map(|(name, text)| [name.into_bytes(), text.into_bytes()])
                        .flatten()
                        .collect(),
                )
            }
        }
    }

    fn path(&self) -> &PathBuf {
        match self {
            Self::File(path) | Self::Envoy(path, _) => path,
        }
    }
}
