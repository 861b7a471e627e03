//! Programs under test that run to their end.

use std::process::Command;

/// Output of a finished program.
pub struct Finished {
    /// Exit code.
    pub exit: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a program to its end.
///
/// # Panics
/// Panics if it cannot be run, is ended by a signal, or writes something else than UTF-8.
#[must_use]
pub fn finish(command: &mut Command) -> Finished {
    let output = command.output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Finished { exit: output.status.code().expect("an exit code"), out: text(output.stdout), err: text(output.stderr) }
}
