//! Rules from a directory with a configuration of envoyproxy/ratelimit. Its files are read in the order of their names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;
use tollgate_rules::FILE_LEN_MAX;
use tollgate_rules::import::{EnvoySettings, Foreign, Imported, from_envoy};

use super::error::RulesFileError;
use crate::file::{FileError, read_text};

/// Reads the rules of a configuration; their generation is `now` in ms.
///
/// # Errors
/// Returns an error if the directory cannot be read or a setting cannot be enforced; each problem has its file and
/// line.
pub(super) fn read_envoy(folder: &Path, settings: &EnvoySettings, now: Timestamp) -> Result<RuleSet, RulesFileError> {
    let imported = import_envoy(folder, settings)?;
    let origin = folder.display().to_string();
    let mut set = tollgate_rules::from_yaml(&format!("{origin} (imported)"), &imported.text, now.as_ms())?;
    set.origin = origin.into();
    set.warnings = imported.warnings;
    Ok(set)
}

/// Reads a configuration and converts it to the text of a Tollgate rules file.
///
/// # Errors
/// Returns an error if the directory cannot be read or a setting cannot be enforced; each problem has its file and
/// line.
pub fn import_envoy(folder: &Path, settings: &EnvoySettings) -> Result<Imported, RulesFileError> {
    let files = files(folder)?;
    if files.is_empty() {
        let why = "there is no file in it; specify the directory that contains the configuration";
        return Err(FileError::new(folder, why).into());
    }
    let foreign: Vec<Foreign<'_>> = files.iter().map(|(name, text)| Foreign { name, text }).collect();
    Ok(from_envoy(&foreign, settings)?)
}

/// Adds the files below a path, whatever their names: envoyproxy/ratelimit reads all that are not hidden, in folders of any depth.
fn add_paths(path: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        paths.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            add_paths(&entry.path(), paths)?;
        }
    }
    Ok(())
}

/// Returns names and texts of a configuration's files. Hidden files, such as those of a mounted config map, are
/// ignored.
pub(super) fn files(folder: &Path) -> Result<Vec<(String, String)>, FileError> {
    let mut paths = Vec::new();
    add_paths(folder, &mut paths).map_err(|error| FileError::unreadable(folder, &error))?;
    paths.sort();
    paths.into_iter().map(|path| Ok((path.display().to_string(), read_text(&path, FILE_LEN_MAX)?))).collect()
}
