//! A gateway's own project, outside of this workspace, that depends on the library by its path.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Dependencies of the fresh project in `docs/library.md`; the program is the example `in_memory`.
#[test]
fn a_fresh_project_limits_in_memory() {
    let agent = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = std::env::temp_dir().join(format!("tollgate-fresh-{}", std::process::id()));
    let (manifest, main) = (folder.join("Cargo.toml"), folder.join("src/main.rs"));
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::copy(agent.join("examples/in_memory.rs"), main).unwrap();
    // The same versions as here, which are on this machine.
    fs::copy(agent.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let text = format!(
        "[package]\nname = \"fresh\"\nedition = \"2024\"\n\n[dependencies]\ntollgate = {{ path = {agent:?} }}\n\
         tokio = {{ version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }}\n"
    );
    fs::write(&manifest, text).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--offline", "--manifest-path"]).arg(manifest).env("CARGO_TARGET_DIR", target);
    let run = cargo.output().unwrap();
    fs::remove_dir_all(folder).unwrap();
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success() && text.contains("call 3 passes") && text.contains("call 4 is denied"), "{run:?}");
}
