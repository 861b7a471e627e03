//! Warnings of patterns that no request meets, and the remedies that they name.

use super::*;

fn warnings(name: &str, pattern: &str) -> Vec<String> {
    let yaml = format!("rules: [{{ name: a, match: {{ {name}: {pattern} }}, per: [], quota: 9/min }}]");
    accepted(&yaml).warnings.iter().map(ToString::to_string).collect()
}

/// G10: a rule that never applies is no limit. The remedy removes the warning.
#[test]
fn a_pattern_that_no_request_meets_is_reported_with_a_remedy() {
    let path = "path of a request after normalization";
    let cases = [
        ("endpoint", "/users/123", path, "/users/{id}"),
        ("endpoint", "/users/123/posts*", path, "/users/{id}/posts*"),
        ("endpoint", "{ prefix: /users/7/ }", path, "/users/{id}/*"),
        ("endpoint", "/blob/deadbeef01", path, "/blob/{id}"),
        ("endpoint", "'/o/123e4567-e89b-12d3-a456-426614174000'", path, "/o/{id}"),
        ("endpoint", "{ exact: '/search?q=1' }", path, "/search"),
        ("endpoint", "search", path, "/search"),
        ("endpoint", "/search/", path, "/search"),
        ("endpoint", "//search", path, "/search"),
        ("endpoint", "/%73earch", path, "/search"),
        ("endpoint", "[/login, /users/9]", path, "/users/{id}"),
        ("method", "post", "method", "POST"),
        ("ip", "'2001:db8::1'", "address of a client", "2001:db8::/64"),
        ("ip", "'::ffff:10.0.0.1'", "address of a client", "10.0.0.1"),
        ("ip", "{ cidr: '2001:db8::1/128' }", "address of a client", "2001:db8::/64"),
        ("ip", "10.0.0.0/8", "address of a client", "{ cidr: 10.0.0.0/8 }"),
    ];
    for (name, pattern, kind, remedy) in cases {
        let warned = warnings(name, pattern);
        let expected = format!("is no {kind}, so it never matches; write {remedy}");
        assert!(warned.len() == 1 && warned[0].ends_with(&expected), "{pattern}: {warned:?}");
        let mended = if remedy.starts_with("{ cidr") { remedy.to_owned() } else { format!("'{remedy}'") };
        assert_eq!(warnings(name, &mended), [""; 0], "{pattern}: {remedy}");
    }
}

#[test]
fn a_pattern_that_some_request_meets_is_not_reported() {
    for (name, pattern) in [
        ("endpoint", "/"),
        ("endpoint", "/*"),
        ("endpoint", "'*'"),
        ("endpoint", "'/users/{id}'"),
        ("endpoint", "/users/*/posts"),
        ("endpoint", "/users/1*"),
        ("endpoint", "/v?/x"),
        ("endpoint", "{ prefix: /users/1 }"),
        ("endpoint", "{ prefix: / }"),
        ("endpoint", "{ regex: ^/users/1 }"),
        ("endpoint", "{ not: [/users/1] }"),
        ("method", "GET"),
        ("ip", "10.0.0.1"),
        ("ip", "'2001:db8::/64'"),
        ("ip", "{ cidr: '2001:db8::/32' }"),
    ] {
        assert_eq!(warnings(name, pattern), [""; 0], "{pattern}");
    }
}

/// A raw path keeps its numbers.
#[test]
fn a_raw_path_has_numbers() {
    let raw = "descriptors: { endpoint: { path: raw } }\n";
    let yaml =
        |pattern: &str| format!("{raw}rules: [{{ name: a, match: {{ endpoint: {pattern} }}, per: [], quota: 9/min }}]");
    assert_eq!(accepted(&yaml("/users/123")).warnings, []);
    assert_eq!(accepted(&yaml("'/search?q=1'")).warnings.len(), 0, "it is a glob, in which `?` is any character");
    assert_eq!(accepted(&yaml("{ exact: '/search?q=1' }")).warnings.len(), 1);
}
