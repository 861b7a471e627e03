//! Normalization of request paths, so that each endpoint has one name.
//!
//! The normal form has no query; `//`, `/./` and `/../` are resolved, escaped unreserved characters are decoded,
//! `;parameters` of segments are removed (RFC 3986, 3.3), as are a trailing slash and trailing escaped spaces and
//! control characters. Another spelling of a path therefore has no quota of its own. Numbers, UUIDs and hexadecimal
//! segments become `{id}`. Case is significant: `/Login` and `/login` are two paths, as for most servers; in front of
//! other servers, the gateway must normalize the case.

use std::borrow::Cow;

/// Minimum length of a segment that is treated as a hexadecimal id, in characters; it must contain a digit.
const HEX_LEN_MIN: usize = 8;

/// Returns the normal form of a path.
#[must_use]
pub fn normalize(path: &str) -> Cow<'_, str> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let plain = !path.contains(['%', ';']) && !path.contains("//") && !path.ends_with('/') && path.starts_with('/');
    if plain && path[1..].split('/').all(|part| !is_id(part) && part != "." && part != "..") {
        return Cow::Borrowed(path);
    }
    let unescaped = unescape(path);
    let mut parts: Vec<&str> = Vec::new();
    for part in unescaped.split('/') {
        let (name, _parameters) = part.split_once(';').unwrap_or((part, ""));
        resolve(&mut parts, name);
    }
    while let Some(last) = parts.pop() {
        let len = parts.len();
        resolve(&mut parts, without_trailing_blanks(last));
        if parts.len() > len {
            break;
        }
    }
    for part in parts.iter_mut().filter(|part| is_id(part)) {
        *part = "{id}";
    }
    Cow::Owned(format!("/{}", parts.join("/")))
}

/// Appends a segment to those before it.
fn resolve<'a>(parts: &mut Vec<&'a str>, part: &'a str) {
    match part {
        "" | "." => {}
        ".." => drop(parts.pop()),
        part => parts.push(part),
    }
}

/// Removes trailing escaped spaces and control characters.
fn without_trailing_blanks(mut part: &str) -> &str {
    while let Some((rest, hex)) = part.len().checked_sub(3).and_then(|at| part.split_at_checked(at)) {
        let byte = hex.strip_prefix('%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if !byte.is_some_and(|byte| byte <= b' ' || byte == 0x7f) {
            break;
        }
        part = rest;
    }
    part
}

fn is_id(part: &str) -> bool {
    let digit = part.bytes().any(|b| b.is_ascii_digit());
    let number = digit && part.bytes().all(|b| b.is_ascii_digit());
    let hex = digit && part.len() >= HEX_LEN_MIN && part.bytes().all(|b| b.is_ascii_hexdigit());
    number || hex || is_uuid(part)
}

fn is_uuid(part: &str) -> bool {
    part.len() == 36
        && part.bytes().enumerate().all(|(i, b)| match i {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}

/// Decodes escaped characters that never require escaping (RFC 3986, 2.3) and leaves others unchanged.
fn unescape(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut parts = path.split('%');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte.map(char::from).filter(|c| c.is_ascii_alphanumeric() || "-._~".contains(*c)) {
            Some(c) => {
                out.push(c);
                out.push_str(&part[2..]);
            }
            None => out.extend(["%", part]),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_become_one_name() {
        for (path, normal) in [
            ("/users/1", "/users/{id}"),
            ("/users/2/posts/30?x=1", "/users/{id}/posts/{id}"),
            ("/o/123e4567-e89b-12d3-a456-426614174000", "/o/{id}"),
            ("/blob/deadbeef01", "/blob/{id}"),
            ("/blob/deadbeef", "/blob/deadbeef"),
            ("/v1/search", "/v1/search"),
            ("/", "/"),
            ("", "/"),
            ("*", "/*"),
        ] {
            assert_eq!(normalize(path), normal, "{path}");
        }
    }

    #[test]
    fn other_spellings_have_the_same_normal_form() {
        for path in ["/search", "/search/", "//search", "/./search", "/a/../search", "/%73earch", "/search?x#y"] {
            assert_eq!(normalize(path), "/search", "{path}");
        }
        assert_eq!(normalize("/%2e%2e/é%zz%"), "/é%zz%");
        assert_eq!(normalize("/Search"), "/Search", "case is significant");
    }

    /// Regression: `/login;x=1` evaded a rule for `/login`, although servers treat the two alike.
    #[test]
    fn parameters_and_trailing_blanks_are_removed() {
        for path in [
            "/login;x=1",
            "/;a/login;",
            "/a;b/..;c/login;d=/;e",
            "/login%20",
            "/login%00%0D%7f/",
            "/login/%20",
            "/login%09;x",
            "/login;x%20",
            "/a/../login/;x%20/%20/",
            "/login/%20/./a/..",
            "/login/a/..%20",
        ] {
            assert_eq!(normalize(path), "/login", "{path}");
        }
        assert_eq!(normalize("/users/7;v=2/posts%20"), "/users/{id}/posts");
        assert_eq!(normalize("/users/7%20"), "/users/{id}");
        assert_eq!(normalize("/a%20b/%C3%A9%80%2"), "/a%20b/%C3%A9%80%2");
        assert_eq!(normalize("/%20"), "/");
    }
}
