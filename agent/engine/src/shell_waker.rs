//! The waker of a shell that sleeps until a state machine's next deadline, although a call can make work for it earlier.
//!
//! A state machine arms the waker before it names a distant deadline. The first operation that makes work disarms it and
//! wakes the shell, so a busy agent pays one load per operation and an idle shell does not wake periodically. The
//! simulator's shell has no thread: its waker sets a flag, which it reads after each operation.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

/// Waker of one shell.
#[derive(Debug, Default)]
pub(crate) struct ShellWaker {
    armed: AtomicBool,
    waker: OnceLock<Waker>,
}

impl ShellWaker {
    /// Sets the waker. Later calls change nothing.
    pub(crate) fn set(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Demands a wake-up at the next [`ShellWaker::wake`]. The caller must look for work once more after it.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
        // Either the caller sees the work, or the operation that made it sees the armed waker.
        fence(Ordering::SeqCst);
    }

    /// Withdraws the demand.
    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Wakes the shell if it asked for it. To be called after the work is visible.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed)
            && self.armed.swap(false, Ordering::Relaxed)
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    /// Waker that counts its wake-ups.
    #[derive(Default)]
    pub(crate) struct WakeUps(AtomicU32);

    impl WakeUps {
        pub(crate) fn count(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    impl Wake for WakeUps {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_shell_is_woken_once_each_time_it_is_armed() {
        let wake_ups = Arc::new(WakeUps::default());
        let waker = ShellWaker::default();
        waker.set(wake_ups.clone().into());
        let woken = || wake_ups.count();
        waker.wake();
        assert_eq!(woken(), 0, "it does not sleep");
        waker.arm();
        waker.wake();
        waker.wake();
        assert_eq!(woken(), 1);
        waker.arm();
        waker.disarm();
        waker.wake();
        assert_eq!(woken(), 1);
    }
}
