//! Files that are looked at while the agent runs, all by one thread: whoever depends on one is told when it has changed.
//!
//! They are read, not watched: that works on every file system and with every way to replace a file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

/// How often the files are looked at.
const POLL: Duration = Duration::from_millis(200);

/// What is looked at, and who is told.
pub(crate) struct Watched {
    content: Content,
    known: Option<Vec<u8>>,
    changed: Box<dyn FnMut() + Send>,
}

type Content = Box<dyn Fn() -> Option<Vec<u8>> + Send>;

impl Watched {
    /// Files of this content that is known.
    pub(crate) fn new(
        known: Option<Vec<u8>>,
        content: impl Fn() -> Option<Vec<u8>> + Send + 'static,
        changed: impl FnMut() + Send + 'static,
    ) -> Self {
        Self { content: Box::new(content), known, changed: Box::new(changed) }
    }

    fn look(&mut self) {
        let content = (self.content)();
        if content != self.known {
            self.known = content;
            (self.changed)();
        }
    }
}

/// Looks after the files on a thread of its own until told to stop; without files there is none.
pub(crate) fn watch(mut files: Vec<Watched>, stop: Arc<AtomicBool>) -> std::io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let thread = Builder::new().name("tollgate-files".into()).spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(POLL);
            files.iter_mut().for_each(Watched::look);
        }
    });
    thread.map(drop)
}
