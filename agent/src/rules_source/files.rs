//! Files that contain rules: Tollgate rules files, or a directory of envoyproxy/ratelimit.

use std::path::{Path, PathBuf};

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;
use tollgate_core::rules::problem::Problem;
use tollgate_files::{FileError, read_text};
use tollgate_rules::import::EnvoySettings;
use tollgate_rules::{FILE_LEN_MAX, NamedText};

use super::envoy;
use super::error::RulesFileError;
use super::folder::RulesFolder;
use crate::file_watch::watched_content;

/// Files that contain rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RulesSource {
    /// Tollgate rules files that are one rule set. A directory stands for its `*.yaml` and `*.yml` files.
    Files(Vec<PathBuf>),
    /// Directory with a configuration of envoyproxy/ratelimit.
    Envoy(PathBuf, EnvoySettings),
}

/// Texts of rules files that are one rule set.
#[derive(Clone, Debug)]
pub struct RulesFiles {
    /// Name for display: the paths that were given.
    pub name: String,
    /// The files in their order, each with its path.
    pub parts: Vec<NamedText>,
    /// Warnings of files in directories that are not read.
    pub warnings: Vec<Problem>,
}

impl RulesSource {
    /// Reads the rules. Without a version of their own, their generation is `now` in ms.
    ///
    /// # Errors
    /// Returns an error if the files cannot be read or are not valid; each problem has its position, cause and remedy.
    #[doc(hidden)]
    pub fn read(&self, now: Timestamp) -> Result<RuleSet, RulesFileError> {
        match self {
            Self::Files(paths) => read_rules(paths, now),
            Self::Envoy(folder, settings) => envoy::read_envoy(folder, settings, now),
        }
    }

    /// Returns the paths of the Tollgate rules files, and of those in directories.
    ///
    /// # Errors
    /// If a directory cannot be read.
    #[doc(hidden)]
    pub fn files(&self) -> Result<Vec<PathBuf>, FileError> {
        let paths = if let Self::Files(paths) = self { paths.as_slice() } else { &[] };
        let listed = paths.iter().map(|path| Ok(RulesFolder::list(path)?.files));
        Ok(listed.collect::<Result<Vec<_>, FileError>>()?.concat())
    }

    /// Returns the content of all files, to detect changes.
    pub(super) fn content(&self) -> Option<Vec<u8>> {
        match self {
            Self::Files(_) => {
                let mut content = Vec::new();
                for path in self.files().ok()? {
                    content.extend_from_slice(path.as_os_str().as_encoded_bytes());
                    content.push(0);
                    content.extend(watched_content(&path, FILE_LEN_MAX).unwrap_or_default());
                    content.push(0);
                }
                Some(content)
            }
            Self::Envoy(folder, _) => {
                let read = envoy::read_folder(folder).ok()?;
                Some(read.files.into_iter().map(|(name, text)| name + &text).collect::<String>().into_bytes())
            }
        }
    }

    /// Returns the paths as they were given.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Files(paths) => names(paths),
            Self::Envoy(path, _) => path.display().to_string(),
        }
    }
}

impl RulesFiles {
    /// Reads the files of these paths. A directory stands for its `*.yaml` and `*.yml` files, in the order of their names.
    ///
    /// # Errors
    /// If a file cannot be read, or a directory has no such file.
    pub fn read(paths: &[impl AsRef<Path>]) -> Result<Self, FileError> {
        let mut files = Self { name: names(paths), parts: Vec::new(), warnings: Vec::new() };
        for path in paths.iter().map(AsRef::as_ref) {
            let mut folder = RulesFolder::list(path)?;
            if folder.files.is_empty() {
                let why = "there is no *.yaml or *.yml file in it; put the rules there, or name another directory";
                return Err(FileError::new(path, why));
            }
            files.warnings.append(&mut folder.warnings);
            for file in folder.files {
                let text = read_text(&file, FILE_LEN_MAX)?;
                files.parts.push(NamedText { name: file.display().to_string(), text });
            }
        }
        Ok(files)
    }

    /// Returns the rules. Without a `version:`, their generation is `now` in ms.
    ///
    /// # Errors
    /// If the rules are not valid; each problem has its line, cause and remedy.
    pub fn rules(&self, now: Timestamp) -> Result<RuleSet, RulesFileError> {
        let mut set = tollgate_rules::from_parts(&self.name, &self.parts, now.as_ms())?;
        set.warnings.splice(0..0, self.warnings.iter().cloned());
        Ok(set)
    }
}

/// Reads Tollgate rules files, and the `*.yaml` and `*.yml` files of directories, as one rule set. Without a `version:`, its
/// generation is `now` in ms.
///
/// # Errors
/// Returns an error if a file cannot be read or is not valid; each problem has its file and line, cause and remedy.
pub fn read_rules(paths: &[impl AsRef<Path>], now: Timestamp) -> Result<RuleSet, RulesFileError> {
    RulesFiles::read(paths)?.rules(now)
}

fn names(paths: &[impl AsRef<Path>]) -> String {
    paths.iter().map(|path| path.as_ref().display().to_string()).collect::<Vec<_>>().join(", ")
}
