//! Merges of YAML 1.1, which YAML 1.2 left out and Go's readers still expand.

use super::*;

const ANCHORS: &str = "a: &a { one: 1, two: 2 }\nb: &b { two: 22, three: 33 }\n";

/// Reads the field `of` after the anchors: names with values, or the errors.
fn merged(of: &str) -> Result<Vec<String>, Vec<String>> {
    let text = format!("{ANCHORS}of:\n{of}\n");
    let mut reader = YamlReader::new("f.yaml");
    let document = reader.document(&text).expect("a document");
    let fields = reader.mapping(&document, "the file");
    let read = reader.mapping(fields.get("of").expect("a field"), "`of`");
    let read = read.iter().map(|(name, value)| format!("{name}={}", scalar(value).unwrap_or("?"))).collect();
    let problems: Vec<String> = reader.problems.iter().map(ToString::to_string).collect();
    if problems.is_empty() { Ok(read) } else { Err(problems) }
}

/// As in Go: the keys of a mapping win wherever they stand, then the first of several mappings.
#[test]
fn a_merge_adds_the_keys_that_are_missing() {
    for (of, read) in [
        ("  <<: *a\n", &["one=1", "two=2"][..]),
        ("  <<: *a\n  two: 3", &["two=3", "one=1"]),
        ("  two: 3\n  <<: *a", &["two=3", "one=1"]),
        ("  <<: [*b, *a]", &["two=22", "three=33", "one=1"]),
        ("  <<: { <<: *a, two: 4 }\n  x: y", &["x=y", "two=4", "one=1"]),
        ("  \"<<\": text", &["<<=text"]),
    ] {
        assert_eq!(merged(of).as_deref(), Ok(&read.iter().map(ToString::to_string).collect::<Vec<_>>()[..]), "{of}");
    }
}

#[test]
fn a_merge_of_anything_else_is_refused_with_its_line() {
    for of in ["  <<: text", "  <<: [*a, text]", "  <<:"] {
        let problems = merged(of).expect_err("must be refused");
        let expected = "f.yaml:4: `<<` merges the keys of other mappings into this one; write the alias of a mapping";
        assert!(problems.len() == 1 && problems[0].starts_with(expected), "{of}: {problems:?}");
    }
}
