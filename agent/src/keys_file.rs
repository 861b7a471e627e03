//! The JWKS file: read at the start, and again when it has changed. A broken file never replaces good keys.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::Watched;
use crate::request::jwt::{Keys, Verifier};

/// The largest JWKS file, in bytes.
const FILE_LEN_MAX: usize = 1 << 20;

/// Why keys could not be read from a file.
#[derive(Debug, thiserror::Error)]
pub enum KeysFileError {
    /// The file cannot be read.
    #[error("{path}: {error}; check the path and its permissions")]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It is no JWKS file.
    #[error("{path}: {why}")]
    Invalid {
        /// Which file.
        path: PathBuf,
        /// Why, and the remedy.
        why: String,
    },
}

/// Has tokens judged by the keys of this file, and by those it will hold.
pub(crate) fn follow(path: PathBuf, verifier: Arc<Verifier>, node: Arc<str>) -> Result<Watched, KeysFileError> {
    let content = read(&path)?;
    verifier.trust(parse(&path, &content)?);
    let again = path.clone();
    let changed = move || match read(&path).and_then(|content| parse(&path, &content)) {
        Ok(keys) => {
            tracing::info!(%node, keys = keys.len(), file = %path.display(), "keys of tokens reloaded");
            verifier.trust(keys);
        }
        Err(error) => {
            tracing::error!(%node, "keys of tokens refused, the old ones stay; mend the file, it is read again by itself: {error}");
            verifier.refuse_keys(error.to_string());
        }
    };
    Ok(Watched::new(Some(content), move || std::fs::read(&again).ok(), changed))
}

fn read(path: &Path) -> Result<Vec<u8>, KeysFileError> {
    std::fs::read(path).map_err(|error| KeysFileError::Unreadable { path: path.to_owned(), error })
}

fn parse(path: &Path, content: &[u8]) -> Result<Keys, KeysFileError> {
    let invalid = |why| KeysFileError::Invalid { path: path.to_owned(), why };
    if content.len() > FILE_LEN_MAX {
        return Err(invalid(format!("{} bytes; a JWKS file has at most {FILE_LEN_MAX}", content.len())));
    }
    Keys::parse(content).map_err(invalid)
}
