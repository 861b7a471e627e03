//! Error of a file or a folder that an agent uses.

use std::path::{Path, PathBuf};

/// Error of a file or a folder, with its path, cause and remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct FileError {
    path: PathBuf,
    why: String,
}

impl FileError {
    pub(crate) fn new(path: &Path, why: impl Into<String>) -> Self {
        Self { path: path.to_owned(), why: why.into() }
    }

    /// Error of a file that cannot be read.
    #[cfg(any(feature = "rules-file", feature = "jwt"))]
    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::new(path, format!("{error}; check the path and its permissions"))
    }
}
