//! Threads that end together: each one looks at a flag in each of its rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// Threads of one service; they end when it is dropped.
pub(crate) struct ThreadGroup {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// Name of the service, and the consequence of a panic, for the log.
    service: &'static str,
    consequence: &'static str,
}

impl ThreadGroup {
    pub(crate) fn new(service: &'static str, consequence: &'static str) -> Self {
        Self { stop: Arc::default(), threads: Vec::new(), service, consequence }
    }

    /// Starts a thread by a function that gets the flag of the group.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub(crate) fn start(
        &mut self,
        start: impl FnOnce(Arc<AtomicBool>) -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<()> {
        self.threads.push(start(self.stop.clone())?);
        Ok(())
    }

    /// Starts a thread that runs a function until the flag is set.
    ///
    /// # Errors
    /// Fails if the system provides no thread.
    pub(crate) fn run(&mut self, name: &str, run: impl FnOnce(&AtomicBool) + Send + 'static) -> std::io::Result<()> {
        self.start(|stop| Builder::new().name(name.into()).spawn(move || run(&stop)))
    }

    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of {} panicked; {}", self.service, self.consequence);
            }
        }
    }
}

impl Drop for ThreadGroup {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end does not wait for a thread that sleeps, and a panic of one does not keep another one running.
    #[test]
    fn threads_end_together() {
        let ended = Arc::new(AtomicBool::new(false));
        let mut group = ThreadGroup::new("a test", "nothing follows");
        let mut run = |then: Box<dyn FnOnce() + Send>| {
            let park = move |stop: &AtomicBool| {
                while !stop.load(Ordering::Relaxed) {
                    std::thread::park();
                }
                then();
            };
            group.run("test", park).expect("a thread");
        };
        run(Box::new(|| panic!("the first thread")));
        let has_ended = ended.clone();
        run(Box::new(move || has_ended.store(true, Ordering::Relaxed)));
        drop(group);
        assert!(ended.load(Ordering::Relaxed));
    }
}
