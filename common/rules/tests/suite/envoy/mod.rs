//! The import of an Envoy configuration limits what envoyproxy/ratelimit would limit.
//!
//! An oracle walks the tree of the foreign file as that project does; the imported rules are applied to the same random
//! requests. Both must choose the same limits and, request after request, the same counters. The configurations in
//! `configs/` are our own; that project's examples are fetched by `scripts/servers`.

mod oracle;
mod ours;
mod random;

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use tollgate_rules::import::{EnvoySettings, Foreign, from_envoy};

use oracle::{Entry, Oracle};
use ours::Ours;
use random::Random;

const REQUESTS: usize = 5_000;

/// Examples of that project that it refuses itself.
const REFUSED: [&str; 12] = [
    "bad_limit_unit",
    "bad_yaml",
    "duplicate_key",
    "empty_domain",
    "empty_key",
    "misspelled_key",
    "misspelled_key2",
    "non_map_list",
    "non_string_key",
    "replaces_empty",
    "replaces_self",
    "unlimited_with_unit",
];

fn is_refused(file: &Path) -> bool {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).expect("the name is text");
    REFUSED.iter().any(|name| stem == format!("test-config-{name}"))
}

/// Returns our own configurations, and the examples of that project.
fn configs() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in [here.join("tests/suite/envoy/configs"), here.join("../../target/servers/envoy-ratelimit")] {
        let found = fs::read_dir(&folder);
        let found = found.unwrap_or_else(|error| panic!("{}: {error}; run scripts/servers", folder.display()));
        files.extend(found.map(|file| file.expect("the folder can be read").path()));
    }
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
}

fn load(file: &Path) -> (Oracle, Ours) {
    let text = fs::read_to_string(file).expect("the file can be read");
    let name = file.file_name().and_then(|name| name.to_str()).expect("the name is text");
    let imported = from_envoy(&[Foreign { name, text: &text }], &EnvoySettings::default());
    let imported = imported.unwrap_or_else(|problems| panic!("{problems}"));
    (Oracle::new(&text), Ours::new(&imported.text))
}

fn entries(pairs: &[(&str, &str)]) -> Vec<Entry> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn the_same_limits_and_counters_apply_to_random_requests() {
    let files: Vec<_> = configs().into_iter().filter(|file| !is_refused(file)).collect();
    assert!(files.len() >= 5 + 10, "{files:?}");
    for file in files {
        let (oracle, ours) = load(&file);
        let mut random = Random::new(1);
        // Counters of both sides correspond one to one.
        let (mut there, mut back) = (HashMap::new(), HashMap::new());
        let mut met = BTreeSet::new();
        for _ in 0..REQUESTS {
            let many = 1 + random.below(3);
            let descriptors: Vec<_> = (0..many).map(|_| oracle.random_descriptor(&mut random)).collect();
            let expected = oracle.request(&descriptors);
            let actual = ours.request(&oracle.domain, &descriptors);
            for (i, (expected, actual)) in expected.into_iter().zip(actual).enumerate() {
                let at = format!("{}: {:?} in {descriptors:?}", file.display(), descriptors[i]);
                let (Some(expected), Some(actual)) = (&expected, &actual) else {
                    assert!(expected.is_none() && actual.is_none(), "{at}: expected {expected:?}, got {actual:?}");
                    continue;
                };
                let says = if expected.denies_all() { ours::DENIED } else { &expected.says };
                assert_eq!(actual.says, says, "{at}");
                met.insert(expected.place.clone());
                if ["unlimited", ours::DENIED].contains(&says) {
                    continue;
                }
                let pair = (expected.counter.clone(), actual.counter.clone());
                assert_eq!(there.entry(pair.0.clone()).or_insert_with(|| pair.1.clone()), &pair.1, "{at}");
                assert_eq!(back.entry(pair.1.clone()).or_insert_with(|| pair.0.clone()), &pair.0, "{at}");
            }
        }
        assert_eq!(met, oracle.places(), "{}: every limit was met", file.display());
    }
}

/// The oracle itself follows the documentation of that project.
#[test]
fn the_oracle_prefers_exact_values_and_does_not_fall_back() {
    let (levels, _) = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/envoy/configs/levels.yaml"));
    let requests = |pairs: &[(&str, &str)]| levels.limit(&entries(pairs)).map(|limit| limit.says.clone());
    assert_eq!(requests(&[("plan", "x")]).as_deref(), Some("10/1s"));
    assert_eq!(requests(&[("plan", "gold")]).as_deref(), Some("40/86400s"));
    assert_eq!(requests(&[("plan", "internal")]), None, "a node without limit lets all pass");
    assert_eq!(requests(&[("plan", "x"), ("region", "south")]).as_deref(), Some("20/60s"));
    assert_eq!(requests(&[("plan", "gold"), ("region", "south")]), None, "the exact branch was taken");
    assert_eq!(requests(&[("plan", "silver"), ("region", "south")]), None);
    assert_eq!(requests(&[("plan", "silver"), ("code", "404")]).as_deref(), Some("60/2592000s"));
    assert_eq!(requests(&[("tenant", "a")]), None, "no limit on this level");
    assert_eq!(requests(&[("tenant", "a"), ("user", "b")]).as_deref(), Some("70/31536000s"));
    assert_eq!(requests(&[("tenant", "a"), ("user", "b"), ("x", "y")]), None, "deeper than the tree");

    let (wild, _) = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/envoy/configs/wildcards.yaml"));
    let path = |path: &str| wild.limit(&entries(&[("path", path)])).map(|limit| limit.says.clone());
    assert_eq!(path("/a1").as_deref(), Some("8/60s"), "exact before wildcard");
    assert_eq!(path("/a-z").as_deref(), Some("4/60s"), "the first wildcard");
    assert_eq!(path("/bz").as_deref(), Some("5/60s"), "the first wildcard, not the one that says most");
    assert_eq!(path("/c-z").as_deref(), Some("5/60s"));
    assert_eq!(path("/c").as_deref(), Some("1/60s"));
    assert_eq!(path("/b1midend"), None);

    let (shared, _) = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/envoy/configs/shared.yaml"));
    let counter = |value: &str| shared.limit(&entries(&[("file", value)])).expect("is limited").counter;
    assert_eq!(counter("docs/a"), counter("docs/b"));
    assert_ne!(counter("pics/a"), counter("pics/b"));
}

/// Files that envoyproxy/ratelimit does not load are refused here, too; each problem has its file and line.
#[test]
fn files_that_envoy_refuses_are_refused() {
    let refused: Vec<_> = configs().into_iter().filter(|file| is_refused(file)).collect();
    assert_eq!(refused.len(), REFUSED.len(), "{refused:?}");
    for file in refused {
        let text = fs::read_to_string(&file).expect("the file can be read");
        let name = file.file_name().and_then(|name| name.to_str()).expect("the name is text");
        let problems = from_envoy(&[Foreign { name, text: &text }], &EnvoySettings::default());
        let problems = problems.expect_err(&format!("{name} must be refused")).to_string();
        assert!(problems.starts_with(&format!("{name}:")), "{problems}");
    }
}
