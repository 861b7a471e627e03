//! The binary under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Returns the binary with these arguments and an empty environment.
pub(crate) fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate-lab"));
    command.args(args).env_clear().stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Writes a file for one test.
pub(crate) fn file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}
