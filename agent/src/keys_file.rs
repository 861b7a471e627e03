//! JWKS file of an agent: read at the start and whenever it changes. An invalid file never replaces valid keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_files::{FileError, read_file};

use crate::file_watch::FileWatch;
use crate::request::jwt::{KeySet, Verifier};

/// Maximum length of a JWKS file in bytes.
const FILE_LEN_MAX: usize = 1 << 20;

/// Reads the keys into the verifier, and returns the watch that reloads them.
pub(crate) fn reload_on_change(path: PathBuf, verifier: Arc<Verifier>, node: Arc<str>) -> Result<FileWatch, FileError> {
    let watch = FileWatch::new(vec![path.clone()], FILE_LEN_MAX);
    verifier.set_keys(read(&path)?);
    Ok(watch.on_change(move || match read(&path) {
        Ok(keys) => {
            tracing::info!(%node, keys = keys.len(), file = %path.display(), "token keys reloaded");
            verifier.set_keys(keys);
        }
        Err(error) => {
            tracing::error!(%node, "token keys rejected, the present ones stay in use; correct the file, it is reloaded automatically: {error}");
            verifier.record_keys_error(error.to_string());
        }
    }))
}

fn read(path: &Path) -> Result<KeySet, FileError> {
    KeySet::parse(&read_file(path, FILE_LEN_MAX)?).map_err(|why| FileError::new(path, why))
}
