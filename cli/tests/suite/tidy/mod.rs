//! Tests of the text of sources and documents: comment style, file names, type names, file sizes, dependencies, paths and
//! links.
//!
//! Each test collects all offenders and prints them with file and line. Rules about imports are in `layout`.

mod documents;
mod retired_words;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Words that turn the first sentence of a comment into a question or a remark instead of a description.
const BAD_BEGINNINGS: [&str; 14] = [
    "What", "Who", "Whom", "Whose", "Whether", "How", "Where", "When", "Why", "So", "That", "The same", "Nothing",
    "None of",
];
/// File and folder names that tell a stranger nothing.
const BAD_NAMES: [&str; 14] = [
    "care", "said", "apart", "aside", "reach", "amend", "news", "ear", "words", "trouble", "pump", "others", "places",
    "line",
];
const FILE_LINES_MAX: usize = 300;
/// Written by `cargo run -p tollgate-proto`.
const GENERATED: [&str; 3] = ["common/wire/src/tollgate.v1.rs", "agent/grpc/src/proto", "cli/src/otlp/proto"];
/// Dependencies, by the beginnings of their names, that an engine must not have.
const BANNED: [&str; 8] = ["tokio", "redis", "rdkafka", "axum", "prometheus", "tracing", "saphyr", "prost"];
/// A source file, its path relative to the workspace.
struct SourceFile {
    path: PathBuf,
    text: String,
}

impl SourceFile {
    /// Returns true for test code: a file in a `tests` folder, `tests.rs`, `*_tests.rs`, and the servers that tests start.
    fn is_test(&self) -> bool {
        let stem = self.path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if self.path.starts_with("common/servers") {
            return true;
        }
        let in_tests = self.path.components().any(|part| part.as_os_str() == "tests");
        in_tests || stem == "tests" || stem.ends_with("_tests")
    }

    fn is_rust(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "rs")
    }

    fn at(&self, line: usize) -> String {
        format!("{}:{}", self.path.display(), line + 1)
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above").to_owned()
}

/// Standard output of cargo, without network access.
fn cargo(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(args).args(["--offline", "--locked"]).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// The workspace's packages and their folders, relative to the workspace.
fn packages() -> BTreeMap<String, PathBuf> {
    let metadata: Value = serde_json::from_str(&cargo(&["metadata", "--no-deps", "--format-version", "1"])).unwrap();
    let folder_of = |package: &Value| {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        let folder = manifest.parent().unwrap().strip_prefix(root()).unwrap();
        (package["name"].as_str().unwrap().to_owned(), folder.to_owned())
    };
    metadata["packages"].as_array().unwrap().iter().map(folder_of).collect()
}

fn collect_files(folder: &Path, into: &mut Vec<SourceFile>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "lua") {
            let text = fs::read_to_string(&path).unwrap();
            into.push(SourceFile { path: path.strip_prefix(root()).unwrap().to_owned(), text });
        }
    }
}

/// All Rust and Lua files that people write: sources, tests, benchmarks and examples of every package.
fn source_files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    for folder in packages().values() {
        for part in ["src", "tests", "benches", "examples"] {
            collect_files(&root().join(folder).join(part), &mut files);
        }
    }
    files.retain(|file| !GENERATED.iter().any(|generated| file.path.starts_with(generated)));
    assert!(files.len() > 100, "only {} source files were found", files.len());
    files
}

fn assert_none(offenders: &[String], remedy: &str) {
    assert!(offenders.is_empty(), "{} offenders; {remedy}:\n{}", offenders.len(), offenders.join("\n"));
}

fn first_word(text: &str) -> &str {
    let text = text.trim_start();
    &text[..text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len())]
}

fn begins_with(text: &str, words: &str) -> bool {
    let rest = text.trim_start().strip_prefix(words);
    rest.is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
}

/// The text of a doc comment line and the marker that begins it.
fn doc_line(line: &str) -> Option<(&'static str, &str)> {
    let line = line.trim_start();
    ["///", "//!"].into_iter().find_map(|marker| {
        let text = line.strip_prefix(marker)?;
        (!text.starts_with('/')).then_some((marker, text))
    })
}

/// The type that a line defines, if the line defines one. An indented `type` is an associated type.
fn defined_type(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        let public = public.trim_start();
        rest = match public.strip_prefix('(') {
            Some(scope) => scope.split_once(')')?.1.trim_start(),
            None => public,
        };
    }
    let (keyword, rest) = rest.split_once(' ')?;
    let defines = matches!(keyword, "struct" | "enum" | "trait" | "union") || keyword == "type" && !is_indented;
    Some(first_word(rest)).filter(|name| defines && name.starts_with(char::is_uppercase))
}

/// A doc comment begins with a noun phrase or a verb in the third person.
#[test]
fn doc_comments_begin_with_a_description() {
    let mut offenders = Vec::new();
    for file in source_files().iter().filter(|file| file.is_rust()) {
        let mut before = None;
        for (number, line) in file.text.lines().enumerate() {
            let doc = doc_line(line);
            if let Some((marker, text)) = doc
                && before != Some(marker)
                && BAD_BEGINNINGS.iter().any(|bad| begins_with(text, bad))
            {
                offenders.push(format!("{}: {}", file.at(number), line.trim()));
            }
            before = doc.map(|(marker, _)| marker);
        }
    }
    assert_none(&offenders, "begin with a noun phrase or a third-person verb, such as `Maximum ..` or `Returns ..`");
}

#[test]
fn files_and_folders_have_names_that_a_stranger_expects() {
    let mut offenders = BTreeSet::new();
    for file in source_files() {
        let named = file.path.ancestors().filter(|path| {
            path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| BAD_NAMES.contains(&stem))
        });
        offenders.extend(named.map(|path| path.display().to_string()));
    }
    assert_none(&offenders.into_iter().collect::<Vec<_>>(), "name a file by a noun of the glossary in ARCHITECTURE.md");
}

/// One word has one meaning. A name that stands twice in one file is one type under two `cfg`s.
#[test]
fn no_two_types_have_the_same_name() {
    let mut definitions: BTreeMap<String, BTreeMap<PathBuf, String>> = BTreeMap::new();
    for file in source_files().iter().filter(|file| file.is_rust() && !file.is_test()) {
        if !file.path.components().any(|part| part.as_os_str() == "src") {
            continue;
        }
        let production = file.text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in production.lines().enumerate() {
            if let Some(name) = defined_type(line) {
                definitions.entry(name.to_owned()).or_default().insert(file.path.clone(), file.at(number));
            }
        }
    }
    let twice = definitions.iter().filter(|(_, places)| places.len() > 1);
    let offenders: Vec<String> = twice
        .map(|(name, places)| format!("{name}: {}", places.values().cloned().collect::<Vec<_>>().join(", ")))
        .collect();
    assert_none(&offenders, "rename all but one, for instance with a prefix");
}

#[test]
fn no_file_is_longer_than_one_idea() {
    let files = source_files();
    let long = files.iter().filter(|file| !file.is_test() && file.text.lines().count() > FILE_LINES_MAX);
    let offenders: Vec<String> =
        long.map(|file| format!("{}: {} lines", file.path.display(), file.text.lines().count())).collect();
    assert_none(&offenders, "split the file by idea");
}

/// The ground crate and the engines do no input and output: a simulation can run all of their behaviour.
#[test]
fn engines_depend_on_no_input_or_output() {
    let packages = packages();
    let free = packages.iter().filter(|(_, folder)| folder.ends_with("engine") || *folder == Path::new("common/core"));
    let mut offenders = Vec::new();
    for (package, folder) in free {
        let tree = cargo(&["tree", "-p", package, "-e", "normal", "--prefix", "none"]);
        assert!(tree.starts_with(&**package), "{tree}");
        let banned: BTreeSet<&str> = tree
            .lines()
            .map(|line| line.split(' ').next().unwrap_or_default())
            .filter(|name| BANNED.iter().any(|banned| name.starts_with(banned)))
            .collect();
        offenders.extend(banned.iter().map(|name| format!("{}: {package} depends on {name}", folder.display())));
    }
    assert_none(
        &offenders,
        "move the work that needs it into a shell; `cargo tree -i` names the way to the dependency",
    );
}
