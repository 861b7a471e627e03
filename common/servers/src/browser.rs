//! Browser, which a script in Node drives.

use std::path::Path;
use std::process::Command;

use crate::server::require;

const PACKAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/servers/page/node_modules/puppeteer-core");

/// Returns the command that runs a script in Node. The script finds Chromium by `PATH`, and its packages in
/// `target/servers/page`.
///
/// # Panics
/// Panics if Node, Chromium or the packages are missing.
#[must_use]
pub fn browser_script(script: &str) -> Command {
    for (program, package) in [("node", "nodejs"), ("chromium", "chromium")] {
        let remedy = format!("run scripts/servers, or apt-get install {package}");
        require(program, "--version", &remedy).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(Path::new(PACKAGES).exists(), "{PACKAGES} is missing: run scripts/servers");
    let mut command = Command::new("node");
    command.arg(script);
    command
}
