//! Terminal of `tollgate top`: its own screen without a cursor, and keys that arrive one by one without an echo.
//!
//! The state before comes back on drop, at any end of the program but a kill.

use std::io::{Read, Write, stdin, stdout};
use std::thread;

use console::Term;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::sync::mpsc;

use super::frame::FrameSize;
use super::keyboard;
use super::state::TopKey;

/// Maximum number of keys that wait.
const KEYS_MAX: usize = 64;
/// The alternate screen, without a cursor, and the end of both (ECMA-48 private modes 1049 and 25 of xterm).
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[H\x1b[J";
const LEAVE: &[u8] = b"\x1b[?25h\x1b[?1049l";

/// Screen of its own, until it is dropped.
pub(super) struct TopScreen {
    /// Modes before; none if standard input is no terminal.
    modes: Option<Termios>,
}

impl TopScreen {
    pub(super) fn enter() -> std::io::Result<Self> {
        let modes = tcgetattr(stdin()).ok();
        // From here on, a failure restores the terminal.
        let screen = Self { modes };
        if let Some(modes) = &screen.modes {
            let mut raw = modes.clone();
            raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN;
            raw.special_codes[SpecialCodeIndex::VMIN] = 1;
            raw.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        }
        let mut out = stdout();
        out.write_all(ENTER)?;
        out.flush()?;
        Ok(screen)
    }

    /// Returns the keys from here on; none if standard input is no terminal.
    pub(super) fn keys(&self) -> mpsc::Receiver<TopKey> {
        let (sender, receiver) = mpsc::channel(KEYS_MAX);
        if self.modes.is_some() {
            // It waits for a key when the program ends, and ends with it.
            thread::spawn(move || {
                let mut bytes = [0; KEYS_MAX];
                while let Ok(len @ 1..) = stdin().read(&mut bytes) {
                    let keys = keyboard::keys(&bytes[..len]);
                    if keys.into_iter().any(|key| sender.blocking_send(key).is_err()) {
                        return;
                    }
                }
            });
        }
        receiver
    }
}

impl Drop for TopScreen {
    fn drop(&mut self) {
        let mut out = stdout();
        let _ = out.write_all(LEAVE).and_then(|()| out.flush());
        if let Some(modes) = &self.modes {
            // Keys that were not read are not for the shell.
            let _ = tcsetattr(stdin(), OptionalActions::Flush, modes);
        }
    }
}

/// Returns the size of the terminal on standard output.
pub(super) fn size() -> FrameSize {
    let size = Term::stdout().size_checked();
    size.map_or_else(FrameSize::default, |(rows, columns)| FrameSize { columns: columns.into(), rows: rows.into() })
}
