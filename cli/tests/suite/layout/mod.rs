//! Tests of the workspace's layout: imports between crates and modules, and the one file that reads clocks.
//!
//! Names, comments and file sizes are in `tidy`.

mod source;
mod modules;

use std::fs;
use std::path::{Path, PathBuf};

use modules::Modules;

/// Folder, root file and level of each crate. A crate imports only crates of lower levels.
const CRATES: &[(&str, &str, u32)] = &[
    ("common/core", "lib.rs", 0),
    ("common/proto", "main.rs", 0),
    ("common/rules", "lib.rs", 1),
    ("common/wire", "lib.rs", 1),
    ("common/metrics", "lib.rs", 0),
    ("common/files", "lib.rs", 0),
    ("common/listen", "lib.rs", 1),
    ("common/bus", "lib.rs", 1),
    ("common/librdkafka", "lib.rs", 2),
    ("common/redis", "lib.rs", 1),
    ("common/tls", "lib.rs", 0),
    ("common/servers", "lib.rs", 1),
    ("agent/engine", "lib.rs", 1),
    ("aggregator/engine", "lib.rs", 1),
    ("agent", "lib.rs", 2),
    ("aggregator", "lib.rs", 2),
    ("agent/http", "lib.rs", 3),
    ("agent/grpc", "lib.rs", 3),
    ("agent/tower", "lib.rs", 3),
    ("experiments/sim", "lib.rs", 3),
    ("cli/command", "lib.rs", 3),
    ("experiments", "lib.rs", 4),
    ("cli", "main.rs", 4),
];
/// Crate that tests of every level use.
const TEST_SERVERS: &str = "tollgate-servers";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn package(folder: &str) -> String {
    let manifest = read(&root().join(folder).join("Cargo.toml"));
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    name.expect("a package has a name").to_owned()
}

/// Collects the source files of a folder, except tests and generated code.
fn source_files(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a folder can be read").path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if path.is_dir() && stem != "tests" {
            source_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !stem.contains('.') {
            into.push(path);
        }
    }
}

/// Within a crate and within each folder, a module imports only modules that stand before it in the list of `mod` lines, and a
/// file that imports its modules is not imported by them. So no two files import each other.
#[test]
fn no_files_import_each_other() {
    let faults = |(folder, root_file, _): &(&str, &str, u32)| {
        let file = Path::new(folder).join("src").join(root_file);
        Modules::read(&file, &|path| fs::read_to_string(root().join(path)).ok()).faults()
    };
    let faults: Vec<String> = CRATES.iter().flat_map(faults).collect();
    assert!(faults.is_empty(), "{} imports close a circle or may do so:\n{}", faults.len(), faults.join("\n"));
}

/// Imports go one way: core, then the other common crates and the engines, then agent and aggregator, then their users.
#[test]
fn crates_import_one_way() {
    let packages: Vec<(String, u32)> = CRATES.iter().map(|(folder, _, level)| (package(folder), *level)).collect();
    for (folder, _, level) in CRATES {
        let manifest = read(&root().join(folder).join("Cargo.toml"));
        let used = manifest.lines().filter_map(|line| line.split_once([' ', '.']).map(|(name, _)| name));
        for name in
            used.filter(|name| name.starts_with("tollgate") && *name != TEST_SERVERS && *name != package(folder))
        {
            let used_level = packages.iter().find(|(package, _)| package == name).map(|(_, level)| *level);
            let used_level = used_level.unwrap_or_else(|| panic!("{name} is not in the list of crates"));
            assert!(used_level < *level, "{folder} must not use {name}");
        }
    }
}

/// The library names its metrics library in private modules only, so no public signature contains a type of it.
#[test]
fn no_public_signature_of_the_library_names_a_metrics_library() {
    let source = root().join("agent/src");
    let private = ["check_durations", "metrics"];
    for module in private {
        assert!(read(&source.join("lib.rs")).contains(&format!("\nmod {module};\n")), "the module is private");
    }
    let mut files = Vec::new();
    source_files(&source, &mut files);
    for file in files.iter().filter(|file| !private.iter().any(|module| **file == source.join(format!("{module}.rs"))))
    {
        assert!(!read(file).contains("prometheus"), "{} names a metrics library", file.display());
    }
}

/// Only one file reads the system's clocks; no other file silences the lint that bans them.
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
