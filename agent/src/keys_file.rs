//! JWKS file of an agent: read at the start and whenever it changes. An invalid file never replaces valid keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::file::{FileError, read_file, watched_content};
use crate::file_watch::FileWatch;
use crate::request::jwt::{KeySet, Verifier};

/// Maximum length of a JWKS file in bytes.
const FILE_LEN_MAX: usize = 1 << 20;

/// Reads the keys into the verifier, and returns the watch that reloads them.
pub(crate) fn reload_on_change(path: PathBuf, verifier: Arc<Verifier>, node: Arc<str>) -> Result<FileWatch, FileError> {
    let (content, keys) = read(&path)?;
    verifier.set_keys(keys);
    let watched = path.clone();
    let changed = move || match read(&path) {
        Ok((_, keys)) => {
            tracing::info!(%node, keys = keys.len(), file = %path.display(), "token keys reloaded");
            verifier.set_keys(keys);
        }
        Err(error) => {
            tracing::error!(%node, "token keys rejected, the present ones stay in use; correct the file, it is reloaded automatically: {error}");
            verifier.record_keys_error(error.to_string());
        }
    };
    let known = watched.is_file().then_some(content);
    let content_now = move || watched_content(&watched, FILE_LEN_MAX);
    Ok(FileWatch { content: Box::new(content_now), known, changed: Box::new(changed) })
}

fn read(path: &Path) -> Result<(Vec<u8>, KeySet), FileError> {
    let content = read_file(path, FILE_LEN_MAX)?;
    let keys = KeySet::parse(&content).map_err(|why| FileError::new(path, why))?;
    Ok((content, keys))
}
