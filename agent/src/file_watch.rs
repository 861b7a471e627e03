//! Watch of files that may change while the agent runs, on one thread.
//!
//! The files are polled, which works on every file system and with every method of replacing a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use tollgate_files::read_file;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Watch of one or several files that belong together.
pub struct FileWatch {
    pub(crate) content: Box<dyn Fn() -> Option<Vec<u8>> + Send>,
    /// Content that was loaded.
    pub(crate) known: Option<Vec<u8>>,
    /// Handles a change, or a request to load the content again.
    pub(crate) changed: Box<dyn FnMut() + Send>,
}

impl FileWatch {
    /// Returns a watch of files of at most `len_max` bytes each, which are loaded after this call, so that no change is missed.
    #[must_use]
    pub fn new(paths: Vec<PathBuf>, len_max: usize) -> Self {
        let content = move || {
            let contents: Option<Vec<_>> = paths.iter().map(|path| watched_content(path, len_max)).collect();
            contents.map(|contents| contents.concat())
        };
        Self { known: content(), content: Box::new(content), changed: Box::new(|| ()) }
    }

    /// Handles changes.
    #[must_use]
    pub fn on_change(self, changed: impl FnMut() + Send + 'static) -> Self {
        Self { changed: Box::new(changed), ..self }
    }

    fn poll(&mut self, is_requested: bool) {
        let content = (self.content)();
        if is_requested || content != self.known {
            self.known = content;
            (self.changed)();
        }
    }
}

/// Starts a thread that polls the files until `stop` is set, and loads them again when `reload` is set. Returns false and
/// does nothing without files.
///
/// # Errors
/// If the system provides no thread.
pub fn watch_files(
    mut watches: Vec<FileWatch>,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
) -> std::io::Result<bool> {
    if watches.is_empty() {
        return Ok(false);
    }
    let thread = Builder::new().name("tollgate-files".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(POLL_INTERVAL);
            let is_requested = reload.swap(false, Ordering::Relaxed);
            for watch in &mut watches {
                watch.poll(is_requested);
            }
        }
    });
    thread.map(|_| true)
}

/// Returns the content of a regular file, to detect changes. A pipe or a device has none, because reading takes it away.
pub(crate) fn watched_content(path: &Path, len_max: usize) -> Option<Vec<u8>> {
    path.is_file().then(|| read_file(path, len_max).ok()).flatten()
}
