//! The layout of the workspace: who may import whom.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Each crate's folder, its root file, and the crates of this workspace that it may use; `tollgate-servers` in tests only.
const CRATES: [(&str, &str, &[&str]); 13] = [
    ("common/core", "lib.rs", &[]),
    ("common/rules", "lib.rs", &["tollgate-core"]),
    ("common/wire", "lib.rs", &["tollgate-core"]),
    ("common/bus", "lib.rs", &["tollgate-core", "tollgate-servers"]),
    ("common/redis", "lib.rs", &["tollgate-core", "tollgate-servers"]),
    ("common/servers", "lib.rs", &["tollgate-core"]),
    ("agent/engine", "lib.rs", &["tollgate-core"]),
    (
        "agent",
        "lib.rs",
        &[
            "tollgate-bus",
            "tollgate-core",
            "tollgate-engine",
            "tollgate-redis",
            "tollgate-rules",
            "tollgate-servers",
            "tollgate-wire",
        ],
    ),
    ("agent/http", "lib.rs", &["tollgate", "tollgate-core", "tollgate-engine", "tollgate-rules"]),
    ("aggregator/engine", "lib.rs", &["tollgate-core"]),
    (
        "aggregator",
        "lib.rs",
        &[
            "tollgate-aggregator-engine",
            "tollgate-bus",
            "tollgate-core",
            "tollgate-redis",
            "tollgate-rules",
            "tollgate-wire",
        ],
    ),
    (
        "experiments",
        "lib.rs",
        &[
            "tollgate",
            "tollgate-aggregator",
            "tollgate-aggregator-engine",
            "tollgate-bus",
            "tollgate-core",
            "tollgate-rules",
            "tollgate-wire",
        ],
    ),
    (
        "cli",
        "main.rs",
        &[
            "tollgate",
            "tollgate-aggregator",
            "tollgate-bus",
            "tollgate-core",
            "tollgate-engine",
            "tollgate-experiments",
            "tollgate-http",
            "tollgate-redis",
            "tollgate-rules",
            "tollgate-servers",
            "tollgate-wire",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The modules that a root file declares, in their order.
fn modules(root_file: &str) -> Vec<String> {
    let declared = |line: &str| {
        let name = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ").strip_prefix("mod ")?;
        Some(name.strip_suffix(';')?.to_owned())
    };
    root_file.lines().filter_map(declared).collect()
}

fn source_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be read").path();
        if path.is_dir() {
            source_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

/// The first names after `crate::` in a file.
fn imported(text: &str) -> impl Iterator<Item = &str> {
    text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        &rest[..end]
    })
}

/// A module imports only what stands before it in the list of its crate's root file.
#[test]
fn a_module_imports_only_what_stands_before_it() {
    for (folder, root_file, _) in CRATES {
        let source = root().join(folder).join("src");
        let order = modules(&read(&source.join(root_file)));
        assert!(!order.is_empty(), "{folder} declares modules");
        let mut files = Vec::new();
        source_files(&source, &mut files);
        for file in files.iter().filter(|file| !file.ends_with(root_file)) {
            let inside = file.strip_prefix(&source).expect("it is inside").with_extension("");
            let module = inside.iter().next().and_then(|part| part.to_str()).expect("a module has a name");
            let place = order.iter().position(|name| name == module);
            let place = place.unwrap_or_else(|| panic!("{}: module {module} is not declared", file.display()));
            let text = read(file);
            for name in imported(&text) {
                let forbidden = order.iter().position(|known| known == name).is_some_and(|other| other > place);
                assert!(!forbidden, "{}: {module} stands before {name} and must not import it", file.display());
            }
        }
    }
}

/// Imports go one way: common, then agent and aggregator, then experiments, then the command line.
#[test]
fn crates_import_one_way() {
    for (folder, _, allowed) in CRATES {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        let used = manifest.lines().filter_map(|line| line.split_once(".workspace").map(|(name, _)| name));
        for name in used.filter(|name| name.starts_with("tollgate")) {
            assert!(allowed.contains(&name), "{folder} must not use {name}");
        }
    }
}

/// Only one file reads the system's clocks; the lint that bans them elsewhere is silenced nowhere else.
#[test]
fn only_one_file_reads_clocks() {
    for (folder, _, _) in CRATES {
        let mut files = Vec::new();
        source_files(&root().join(folder).join("src"), &mut files);
        for file in files.iter().filter(|file| !file.ends_with("common/core/src/clock.rs")) {
            assert!(!read(file).contains("disallowed_methods"), "{} silences the ban on clocks", file.display());
        }
    }
}

/// The aggregator's engine does no I/O: its dependencies contain no runtime, server, client, metrics or log.
#[test]
fn the_aggregator_engine_depends_on_nothing_that_does_io() {
    const BANNED: [&str; 9] =
        ["axum", "prometheus-client", "prost", "rdkafka", "redis", "saphyr", "saphyr-parser", "tokio", "tracing"];
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--edges", "normal", "--prefix", "none", "--package", "tollgate-aggregator-engine"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).expect("text");
    let used: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(used.contains(&"tollgate-core"), "{tree}");
    for name in BANNED {
        assert!(!used.contains(&name), "tollgate-aggregator-engine must not use {name}");
    }
}
