//! Warnings of patterns that no request meets, and the remedies that they name.

use proptest::prelude::*;
use tollgate_core::call::Call;

use super::*;

const PATH: &str = "path of a request after normalization";
const CLIENT: &str = "address of a client";
/// Declarations of an address without a prefix, and of a path as it is.
const WHOLE_ADDRESSES: &str = "descriptors: { ip: { client_ip: { ipv6_prefix: 128 } } }\n";
const RAW_PATHS: &str = "descriptors: { endpoint: { path: raw } }\n";

fn warnings_of(yaml: &str) -> Vec<String> {
    accepted(yaml).warnings.iter().map(ToString::to_string).collect()
}

fn rules(declared: &str, name: &str, pattern: &str) -> String {
    format!("{declared}rules: [{{ name: a, match: {{ {name}: {pattern} }}, per: [], quota: 9/min }}]")
}

fn warnings(name: &str, pattern: &str) -> Vec<String> {
    warnings_of(&rules("", name, pattern))
}

/// Returns true if the rule applies to a request whose descriptor has this text.
fn applies(yaml: &str, name: &str, text: &str) -> bool {
    let set = accepted(yaml);
    let call = set.as_requested(Call::new().with(name, text));
    !set.applicable(&set.resolved(&call)).is_empty()
}

/// Writes a text in single quotes.
fn single(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// G10: a rule that never applies is no limit. The remedy removes the warning, and matches the request that was meant.
#[test]
fn a_pattern_that_no_request_meets_is_reported_with_a_remedy() {
    // The name and pattern of a condition, its kind, the remedy, and the request that is meant.
    let cases = [
        ("endpoint", "/users/123", PATH, "\"/users/{id}\"", "/users/123"),
        ("endpoint", "/users/123/posts*", PATH, "\"/users/{id}/posts*\"", "/users/123/posts"),
        ("endpoint", "{ prefix: /users/7/ }", PATH, "\"/users/{id}/*\"", "/users/7/x"),
        ("endpoint", "/blob/deadbeef01", PATH, "\"/blob/{id}\"", "/blob/deadbeef01"),
        ("endpoint", "/o/123e4567-e89b-12d3-a456-426614174000", PATH, "\"/o/{id}\"", "/o/{id}"),
        ("endpoint", "{ exact: '/search?q=1' }", PATH, "/search", "/search?q=1"),
        ("endpoint", "{ prefix: '/search?q=' }", PATH, "/search", "/search?q=1"),
        ("endpoint", "{ exact: '/a*/' }", PATH, "{ exact: /a* }", "/a*/"),
        ("endpoint", "{ prefix: '/a*/1/' }", PATH, "{ prefix: \"/a*/{id}/\" }", "/a*/1/x"),
        ("endpoint", "search", PATH, "/search", "/search"),
        ("endpoint", "/search/", PATH, "/search", "/search/"),
        ("endpoint", "//search", PATH, "/search", "//search"),
        ("endpoint", "/%73earch", PATH, "/search", "/%73earch"),
        ("endpoint", "/a/../b", PATH, "/b", "/a/../b"),
        ("endpoint", "/a;v=1/b", PATH, "/a/b", "/a;v=1/b"),
        ("endpoint", "/a/b%20", PATH, "/a/b", "/a/b%20"),
        ("endpoint", "/users/1/*/x", PATH, "\"/users/{id}/*/x\"", "/users/1/y/x"),
        ("endpoint", "'*/users/1/*.gif'", PATH, "\"*/users/{id}/*.gif\"", "/v/users/1/x.gif"),
        ("endpoint", "'/v?/*/../12'", PATH, "\"/v?/{id}\"", "/v1/x/../12"),
        ("endpoint", "[/login, /users/9]", PATH, "\"/users/{id}\"", "/users/9"),
        ("endpoint", "{ prefix: /users, exact: /users/9 }", PATH, "\"/users/{id}\"", "/users/9"),
        ("method", "post", "method", "POST", "POST"),
        ("method", "'po*'", "method", "PO*", "post"),
        ("method", "'*?st'", "method", "\"*?ST\"", "post"),
        ("method", "{ prefix: post }", "method", "POST*", "post"),
        ("ip", "'2001:db8::1'", CLIENT, "\"2001:db8::/64\"", "2001:db8::1"),
        ("ip", "'2001:db8::1/64'", CLIENT, "\"2001:db8::/64\"", "2001:db8::1"),
        ("ip", "'2001:db8::/32'", CLIENT, "{ cidr: \"2001:db8::/32\" }", "2001:db8:1::1"),
        ("ip", "'::ffff:10.0.0.1'", CLIENT, "10.0.0.1", "::ffff:10.0.0.1"),
        ("ip", "'::ffff:10.0.0.0/104'", CLIENT, "{ cidr: 10.0.0.0/8 }", "::ffff:10.1.2.3"),
        ("ip", "{ cidr: '2001:db8::1/128' }", CLIENT, "\"2001:db8::/64\"", "2001:db8::1"),
        ("ip", "{ cidr: '::ffff:10.0.0.0/104' }", CLIENT, "{ cidr: 10.0.0.0/8 }", "10.1.2.3"),
        ("ip", "{ cidr: '64:ff9b::/96' }", CLIENT, "{ cidr: 0.0.0.0/0 }", "64:ff9b::10.1.2.3"),
        ("ip", "10.0.0.0/8", CLIENT, "{ cidr: 10.0.0.0/8 }", "10.1.2.3"),
        ("ip", "10.0.0.1/8", CLIENT, "{ cidr: 10.0.0.0/8 }", "10.1.2.3"),
    ];
    for (name, pattern, kind, remedy, meant) in cases {
        let warned = warnings(name, pattern);
        let expected = format!("is no {kind}, so it never matches; write {remedy}");
        assert!(warned.len() == 1 && warned[0].ends_with(&expected), "{pattern}: {warned:?}");
        assert_eq!(warnings(name, remedy), [""; 0], "{pattern}: {remedy}");
        assert!(applies(&rules("", name, remedy), name, meant), "{pattern}: {remedy}");
    }
}

/// Regular expressions are compared with all values, not with samples.
#[test]
fn a_regular_expression_that_no_request_meets_is_reported_with_a_value_to_match() {
    let id = ", with `\\{id\\}` for each id";
    let cases = [
        ("endpoint", "^/users/[0-9]+$", "no", "/users/{id}", id, r"^/users/\{id\}$"),
        ("endpoint", r"^/users/\d+/posts", "no", "/users/{id}/posts", id, r"^/users/\{id\}/posts"),
        ("endpoint", "/[0-9]+$", "no", "/{id}", id, r"/\{id\}$"),
        ("endpoint", "^/(users|teams)/[1-9][0-9]*$", "no", "/teams/{id}", id, r"^/(users|teams)/\{id\}$"),
        ("endpoint", "^/o/[0-9A-F]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "no", "/o/{id}", id, r"^/o/\{id\}$"),
        ("endpoint", "^/blob/[0-9a-f]{32,40}$", "hardly a", "/blob/{id}", id, r"^/blob/\{id\}$"),
        ("endpoint", "^users/", "no", "/users", "", "^/users"),
        ("endpoint", r"^/search\?q=", "no", "/search", "", "^/search$"),
        ("endpoint", "^/search/$", "no", "/search", "", "^/search$"),
        ("method", "^(get|post)$", "no", "GET", "", "^(GET|POST)$"),
        ("method", "ost", "no", "OST", "", "OST"),
    ];
    for (name, regex, is, value, more, mended) in cases {
        let warned = warnings(name, &format!("{{ regex: {} }}", single(regex)));
        let kind = if name == "method" { "method" } else { PATH };
        let never = if is == "no" { "never" } else { "hardly ever" };
        let expected =
            format!("`~{regex}` is {is} {kind}, so it {never} matches; write one that matches {value}{more}");
        assert!(warned.len() == 1 && warned[0].ends_with(&expected), "{regex}: {warned:?}");
        let mended = format!("{{ regex: {} }}", single(mended));
        assert_eq!(warnings(name, &mended), [""; 0], "{mended}");
        assert!(applies(&rules("", name, &mended), name, value), "{mended}");
    }
}

#[test]
fn a_pattern_that_some_request_meets_is_not_reported() {
    for (name, pattern) in [
        ("endpoint", "/"),
        ("endpoint", "/*"),
        ("endpoint", "'*'"),
        ("endpoint", "'**'"),
        ("endpoint", "'*/'"),
        ("endpoint", "'*.gif'"),
        ("endpoint", "'?users'"),
        ("endpoint", "'/users/{id}'"),
        ("endpoint", "/users/*/posts"),
        ("endpoint", "/users/1*"),
        ("endpoint", "/v?/x"),
        ("endpoint", "/a%20/b"),
        ("endpoint", "{ prefix: /a%4 }"),
        ("endpoint", "{ prefix: /a/.. }"),
        ("endpoint", "{ prefix: /users/1 }"),
        ("endpoint", "{ prefix: / }"),
        ("endpoint", "{ regex: ^/users/1 }"),
        ("endpoint", "{ regex: '^/users/([0-9]+|me)$' }"),
        ("endpoint", "{ regex: '^/(deadbeef|[0-9]+)$' }"),
        ("endpoint", "{ regex: '^/blob/[0-9a-f]+$' }"),
        ("endpoint", "{ regex: '^/[a-z0-9-]{36}$' }"),
        ("endpoint", "{ regex: '^/é' }"),
        ("endpoint", "{ regex: '^' }"),
        ("endpoint", r"{ regex: '\busers\b' }"),
        ("endpoint", "{ not: [/users/1] }"),
        ("endpoint", "{ prefix: /users, not: [/users/1] }"),
        ("method", "GET"),
        ("method", "'*'"),
        ("method", "{ regex: '(?i)^post$' }"),
        ("method", "{ regex: '^(get|PURGE)$' }"),
        ("ip", "10.0.0.1"),
        ("ip", "'2001:db8::/64'"),
        ("ip", "{ cidr: '2001:db8::/32' }"),
        ("ip", "{ cidr: '::/0' }"),
        ("ip", "{ cidr: '2002:a00:1::/48' }"),
    ] {
        assert_eq!(warnings(name, pattern), [""; 0], "{pattern}");
    }
}

/// A whole address is a client where the prefix says so.
#[test]
fn the_prefix_of_clients_decides_about_networks() {
    let of = |pattern: &str| warnings_of(&rules(WHOLE_ADDRESSES, "ip", pattern));
    for pattern in ["'2001:db8::1'", "{ cidr: '2001:db8::1/128' }", "{ cidr: '2001:db8::/96' }"] {
        assert_eq!(of(pattern), [""; 0], "{pattern}");
    }
    for (pattern, remedy) in [
        ("{ cidr: '::ffff:10.0.0.0/104' }", "{ cidr: 10.0.0.0/8 }"),
        ("'2001:db8::1/128'", "\"2001:db8::1\""),
        ("'2001:db8::/64'", "{ cidr: \"2001:db8::/64\" }"),
    ] {
        let warned = of(pattern);
        assert!(warned.len() == 1 && warned[0].ends_with(&format!("write {remedy}")), "{pattern}: {warned:?}");
        assert_eq!(of(remedy), [""; 0], "{remedy}");
    }
}

/// A raw path keeps its numbers.
#[test]
fn a_raw_path_has_numbers() {
    let of = |pattern: &str| warnings_of(&rules(RAW_PATHS, "endpoint", pattern)).len();
    for (pattern, warned) in [
        ("/users/123", 0),
        ("//a/../b/", 0),
        ("'/search?q=1'", 0), // a glob, in which `?` is any character
        ("{ regex: '^/blob/[0-9a-f]{32}$' }", 0),
        ("{ regex: '^/users/[0-9]+$' }", 0),
        ("{ exact: '/search?q=1' }", 1),
        ("{ regex: '^/search[?]q=' }", 1),
        ("users", 1),
    ] {
        assert_eq!(of(pattern), warned, "{pattern}");
    }
}

/// Each place of the file where the text of a value stands.
#[test]
fn values_of_keys_costs_maps_and_lists_are_reported() {
    let rule = "{ name: a, per: [endpoint], quota: 9/min }";
    for (yaml, remedy) in [
        (
            "rules: [{ name: a, per: [endpoint], quota: 9/min, keys: { /users/123: { quota: 1/min } } }]",
            "\"/users/{id}\"",
        ),
        (
            "rules: [{ name: a, per: [], quota: 9/min, costs: { endpoint: { /users/123*: 5, /b/1/*: 2 } } }]",
            "\"/b/{id}/*\"",
        ),
        (
            &format!("descriptors: {{ kind: {{ of: endpoint, map: {{ /users/123: x }} }} }}\nrules: [{rule}]"),
            "\"/users/{id}\"",
        ),
        (&format!("lists: {{ deny: [{{ method: get }}] }}\nrules: [{rule}]"), "GET"),
        (
            "rules: [{ name: a, per: [ip], quota: 9/min, keys: { 10.0.0.0/8: { quota: 1/min } } }]",
            "another rule for them, with `match: { ip: { cidr: 10.0.0.0/8 } }`",
        ),
    ] {
        let warned = warnings_of(yaml);
        assert!(
            warned.len() == 1 && warned[0].ends_with(&format!("so it never matches; write {remedy}")),
            "{warned:?}"
        );
    }
}

/// A rule for HTTP requests that names not all of their descriptors never applies under `exact_match`.
#[test]
fn an_exact_match_that_no_request_meets_is_reported_with_a_remedy() {
    let yaml = |descriptors: &str, matches: &str, per: &str| {
        format!(
            "{descriptors}rules:\n- {{ name: a, match: {{ {matches} }}, per: [{per}], exact_match: true, quota: 9/min }}"
        )
    };
    let own = "descriptors: { ip: client_ip, verb: method, method: { header: method } }\n";
    for (descriptors, matches, per, named, remedy) in [
        ("", "endpoint: /login", "ip", "`method`", "method: \"*\""),
        ("", "", "", "`ip` and `method` and `endpoint`", "ip: \"*\", method: \"*\", endpoint: \"*\""),
        ("", "endpoint: /login, method: GET", "api_key", "`ip`", "ip: \"*\""),
        (own, "endpoint: /login", "ip", "`verb`", "verb: \"*\""),
    ] {
        let warned = warnings_of(&yaml(descriptors, matches, per));
        let expected = format!(
            "each one also has {named}, which the rule does not name; add `{remedy}` to its `match`, or remove `exact_match`"
        );
        assert!(warned.len() == 1 && warned[0].ends_with(&expected), "{matches}: {warned:?}");
        let mended = yaml(descriptors, [matches, remedy].map(str::to_owned).join(", ").trim_start_matches(", "), per);
        assert_eq!(warnings_of(&mended), [""; 0]);
        let request =
            [("ip", "10.0.0.1"), ("method", "GET"), ("verb", "GET"), ("endpoint", "/login"), ("api_key", "k")];
        let has = |name: &str| match name {
            "verb" => !descriptors.is_empty(),
            "method" => descriptors.is_empty(),
            "api_key" => per == "api_key",
            _ => true,
        };
        let call = request
            .iter()
            .filter(|(name, _)| has(name))
            .fold(Call::new(), |call, (name, value)| call.with(*name, *value));
        let count = |yaml: &str| {
            let set = accepted(yaml);
            set.applicable(&set.resolved(&call)).len()
        };
        assert_eq!((count(&yaml(descriptors, matches, per)), count(&mended)), (0, 1), "{matches}");
    }
    let undeclared = warnings_of(&yaml("", "domain: web, endpoint: /login", ""));
    assert!(!undeclared.iter().any(|warning| warning.contains("exact_match")), "{undeclared:?}");
    assert_eq!(warnings_of(&yaml("", "endpoint: /login, method: POST", "ip")), [""; 0]);
}

/// Returns paths in all spellings, without escapes that are cut off: of these, the normal form may have another one.
fn paths() -> impl Strategy<Value = String> {
    let parts = [
        "/",
        "/",
        "//",
        "/./",
        "/../",
        "users",
        "12",
        "deadbeef01",
        "{id}",
        "%73",
        "%20",
        "%2F",
        ";v=1",
        "?q=1",
        "#x",
        ".",
        "é",
    ];
    proptest::collection::vec(proptest::sample::select(parts.to_vec()), 1..8).prop_map(|parts| parts.concat())
}

proptest! {
    /// A pattern that is its own normal form is never reported, in any form.
    #[test]
    fn a_normal_form_is_not_reported(path in paths()) {
        let normal = tollgate_core::request_path::normalize(&path).into_owned();
        for form in ["exact", "prefix", "glob"] {
            let pattern = format!("{{ {form}: {} }}", single(&normal));
            prop_assert_eq!(warnings("endpoint", &pattern), [""; 0], "{}", pattern);
        }
        let regex = format!("{{ regex: {} }}", single(&format!("^{}$", regex::escape(&normal))));
        prop_assert_eq!(warnings("endpoint", &regex), [""; 0], "{}", regex);
    }

    /// A pattern without a warning is met by a request; a remedy has no warning, and matches the request that is meant.
    #[test]
    fn a_remedy_is_met_by_the_request_that_is_meant(path in paths()) {
        for (form, meant) in [("exact", path.clone()), ("prefix", format!("{path}zz"))] {
            let pattern = format!("{{ {form}: {} }}", single(&path));
            let warned = warnings("endpoint", &pattern);
            let pattern = match &warned[..] {
                [] => pattern,
                [warning] => warning.split_once("; write ").expect("a remedy").1.to_owned(),
                more => panic!("{more:?}"),
            };
            prop_assert_eq!(warnings("endpoint", &pattern), [""; 0], "{}", &pattern);
            prop_assert!(applies(&rules("", "endpoint", &pattern), "endpoint", &meant), "{}: {}", meant, pattern);
        }
    }
}
