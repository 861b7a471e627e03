//! The file with the token of operators, and its reload.

use std::path::Path;
use std::sync::Arc;

use tollgate::{FileWatch, watch_files};
use tollgate_command::exit::Usage;
use tollgate_files::read_text;
use tollgate_http::OperatorToken;

/// Maximum length of the file, in bytes.
const FILE_LEN_MAX: usize = 1 << 10;

/// Reads the token, and reads it again when the file changes. A file that cannot be used changes nothing.
pub(crate) fn load(path: &Path) -> anyhow::Result<OperatorToken> {
    let watch = FileWatch::new(vec![path.to_owned()], FILE_LEN_MAX);
    let token = OperatorToken::new(read(path)?.trim()).map_err(|why| wrong(path, &why))?;
    let (path, reloaded) = (path.to_owned(), token.clone());
    let watch = watch.on_change(move || {
        let replaced = read(&path).map_err(|Usage(why)| why).and_then(|text| reloaded.replace(text.trim()));
        match replaced {
            Ok(()) => tracing::info!(file = %path.display(), "the token of operators is replaced"),
            Err(why) => tracing::error!(
                file = %path.display(),
                "the token of operators is rejected, the present one stays valid; correct the file, it is reloaded automatically: {why}"
            ),
        }
    });
    watch_files(vec![watch], Arc::default(), Arc::default())?;
    Ok(token)
}

/// Returns the token of a file, to send it.
pub(crate) fn checked(path: &Path) -> Result<String, Usage> {
    let text = read(path)?;
    OperatorToken::new(text.trim()).map_err(|why| wrong(path, &why))?;
    Ok(text.trim().to_owned())
}

fn wrong(path: &Path, why: &str) -> Usage {
    Usage(format!("{}: this is no token: {why}", path.display()))
}

fn read(path: &Path) -> Result<String, Usage> {
    read_text(path, FILE_LEN_MAX).map_err(|error| Usage(error.to_string()))
}
