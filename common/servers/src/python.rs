//! Python with a package of `target/servers`.

use std::path::Path;
use std::process::Command;

use crate::server::require;

const SERVERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers");

/// Returns the command that runs a script in Python with one package, from the folder of its name in `target/servers`.
/// `installer` is the command that installs the package.
///
/// # Panics
/// Panics if Python or the package is missing.
#[must_use]
pub fn python_script(script: &str, package: &str, installer: &str) -> Command {
    let remedy = "run scripts/servers, or apt-get install python3";
    require("python3", "--version", remedy).unwrap_or_else(|error| panic!("{error}"));
    let folder = Path::new(SERVERS).join(package);
    assert!(folder.join("version").exists(), "{} is missing: run {installer}", folder.display());
    let mut command = Command::new("python3");
    command.args(["-c", script]).env("PYTHONPATH", folder);
    command
}
