//! Files that an agent and its commands read. Each has a cap that holds while it is read, because a path may name a
//! device or a pipe without end.

use std::fs::File;
use std::io::Read;
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

    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        Self::new(path, format!("{error}; check the path and its permissions"))
    }
}

/// Reads a file of at most `len_max` bytes.
///
/// # Errors
/// If the file cannot be read, or is longer. No more than one byte past the cap is read.
pub(crate) fn read_file(path: &Path, len_max: usize) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(len_max as u64 + 1).read_to_end(&mut content));
    read.map_err(|error| FileError::unreadable(path, &error))?;
    if content.len() > len_max {
        return Err(FileError::new(path, format!("longer than the {len_max} bytes that are read; check the path")));
    }
    Ok(content)
}

/// Reads a text of at most `len_max` bytes.
///
/// # Errors
/// As [`read_file`], and if the file is not UTF-8.
#[doc(hidden)]
pub fn read_text(path: &Path, len_max: usize) -> Result<String, FileError> {
    String::from_utf8(read_file(path, len_max)?)
        .map_err(|_| FileError::new(path, "this is no text in UTF-8; check the path"))
}

/// Returns the content of a regular file, to detect changes. A pipe or a device has none, because reading takes it away.
#[cfg(any(feature = "rules-file", feature = "jwt"))]
pub(crate) fn watched_content(path: &Path, len_max: usize) -> Option<Vec<u8>> {
    path.is_file().then(|| read_file(path, len_max).ok()).flatten()
}
