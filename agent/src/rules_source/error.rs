//! Error of reading rules from files.

use tollgate_core::rules::problem::Problems;
use tollgate_files::FileError;

/// Error of reading rules from files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RulesFileError {
    /// File or directory that cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// Invalid rules.
    #[error(transparent)]
    Invalid(#[from] Problems),
}
