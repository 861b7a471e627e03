//! Rules from a Tollgate rules file.

use std::path::Path;

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;

use super::RulesFileError;

/// Reads a rules file. Without a `version:`, its generation is `now` in ms.
///
/// # Errors
/// Returns an error if the file cannot be read or is not valid; each problem has its line, cause and remedy.
pub fn read_rules(path: &Path, now: Timestamp) -> Result<RuleSet, RulesFileError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| RulesFileError::Unreadable { path: path.to_owned(), error })?;
    Ok(tollgate_rules::from_yaml(&path.display().to_string(), &text, now.as_ms())?)
}
