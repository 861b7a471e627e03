//! Files that contain rules: a Tollgate rules file, or a directory of envoyproxy/ratelimit.

use std::path::{Path, PathBuf};

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;
use tollgate_files::read_text;
use tollgate_rules::FILE_LEN_MAX;
use tollgate_rules::import::EnvoySettings;

use super::envoy;
use super::error::RulesFileError;
use crate::file_watch::watched_content;

/// Files that contain rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesSource {
    /// Tollgate rules file.
    File(PathBuf),
    /// Directory with a configuration of envoyproxy/ratelimit.
    Envoy(PathBuf, EnvoySettings),
}

impl RulesSource {
    /// Reads the rules. Without a version of their own, their generation is `now` in ms.
    ///
    /// # Errors
    /// Returns an error if the files cannot be read or are not valid; each problem has its position, cause and remedy.
    #[doc(hidden)]
    pub fn read(&self, now: Timestamp) -> Result<RuleSet, RulesFileError> {
        match self {
            Self::File(path) => read_rules(path, now),
            Self::Envoy(folder, settings) => envoy::read_envoy(folder, settings, now),
        }
    }

    /// Returns the content of all files, to detect changes.
    pub(super) fn content(&self) -> Option<Vec<u8>> {
        match self {
            Self::File(path) => watched_content(path, FILE_LEN_MAX),
            Self::Envoy(folder, _) => {
                let read = envoy::read_folder(folder).ok()?;
                Some(read.files.into_iter().map(|(name, text)| name + &text).collect::<String>().into_bytes())
            }
        }
    }

    pub(super) fn path(&self) -> &PathBuf {
        match self {
            Self::File(path) | Self::Envoy(path, _) => path,
        }
    }
}

/// Reads a Tollgate rules file. Without a `version:`, its generation is `now` in ms.
///
/// # Errors
/// Returns an error if the file cannot be read or is not valid; each problem has its line, cause and remedy.
pub fn read_rules(path: &Path, now: Timestamp) -> Result<RuleSet, RulesFileError> {
    let text = read_text(path, FILE_LEN_MAX)?;
    Ok(tollgate_rules::from_yaml(&path.display().to_string(), &text, now.as_ms())?)
}
