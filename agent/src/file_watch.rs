//! Watch of files that may change while the agent runs, on one thread.
//!
//! The files are polled, which works on every file system and with every method of replacing a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

/// Interval of polling.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// File or folder with its last content and the function that handles a change.
pub(crate) struct FileWatch {
    content: ReadContent,
    known: Option<Vec<u8>>,
    changed: Box<dyn FnMut() + Send>,
}

type ReadContent = Box<dyn Fn() -> Option<Vec<u8>> + Send>;

impl FileWatch {
    /// Creates a watch. `known` is the content that was loaded; `content` reads it again, and `changed` handles a
    /// change.
    pub(crate) fn new(
        known: Option<Vec<u8>>,
        content: impl Fn() -> Option<Vec<u8>> + Send + 'static,
        changed: impl FnMut() + Send + 'static,
    ) -> Self {
        Self { content: Box::new(content), known, changed: Box::new(changed) }
    }

    fn poll(&mut self) {
        let content = (self.content)();
        if content != self.known {
            self.known = content;
            (self.changed)();
        }
    }
}

/// Starts a thread that polls the files until `stop` is set; does nothing without files.
pub(crate) fn start(mut watches: Vec<FileWatch>, stop: Arc<AtomicBool>) -> std::io::Result<()> {
    if watches.is_empty() {
        return Ok(());
    }
    let thread = Builder::new().name("tollgate-files".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(POLL_INTERVAL);
            watches.iter_mut().for_each(FileWatch::poll);
        }
    });
    thread.map(drop)
}
