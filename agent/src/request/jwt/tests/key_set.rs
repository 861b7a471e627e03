//! Valid JWKS files, and the errors of invalid ones.

use serde_json::{Value, json};

use super::super::{KEYS_LEN_MAX, KeySet};
use super::RFC_RSA_N;

fn parse_error(key: &Value) -> String {
    KeySet::parse(json!({ "keys": [key] }).to_string().as_bytes()).unwrap_err()
}

#[test]
fn keys_for_other_purposes_are_ignored() {
    let keys = json!({ "keys": [
        { "kty": "RSA", "kid": "sig", "alg": "RS256", "use": "sig", "n": RFC_RSA_N, "e": "AQAB", "x5t": "abc", "x5c": ["abc"] },
        { "kty": "RSA", "kid": "enc", "alg": "RSA-OAEP", "use": "enc", "n": RFC_RSA_N, "e": "AQAB" },
        { "kty": "RSA", "alg": "RS512", "n": RFC_RSA_N, "e": "AQAB" },
        { "kty": "OKP", "crv": "Ed25519", "x": "abc" },
        { "kty": "EC", "crv": "P-384", "x": "abc", "y": "abc" },
        { "kty": "oct", "key_ops": ["sign"], "k": "short" },
    ] });
    assert_eq!(KeySet::parse(keys.to_string().as_bytes()).unwrap().len(), 1);
    assert!(KeySet::parse(br#"{"keys": []}"#).unwrap_err().contains("add the key that signs your tokens"));
}

#[test]
fn the_error_of_a_broken_file_has_its_position_and_a_remedy() {
    let error = KeySet::parse(b"{\n \"keys\": [\n  { \"kid\": \"a\" }\n ]\n}").unwrap_err();
    assert!(error.starts_with("missing field `kty` at line 3 column") && error.contains("; write {"), "{error}");
    for (key, why) in [
        (json!({ "kty": "oct", "kid": "a" }), "key 1 (kid `a`): `k` is missing; copy the complete key"),
        (
            json!({ "kty": "oct", "k": "c2hvcnQ" }),
            "key 1: a secret of 5 bytes can be guessed; HS256 needs 32 random bytes in `k`",
        ),
        (json!({ "kty": "oct", "k": "!" }), "key 1: `k` is not base64url; copy the key as published"),
        (
            json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }),
            "key 1: an RSA key of 24 bits is insecure or too slow; use one of 2048 to 8192",
        ),
        (json!({ "kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB" }), "key 1: `x` has 3 bytes, not 32"),
        (
            json!({ "kty": "RSA", "alg": "HS256", "n": RFC_RSA_N, "e": "AQAB" }),
            "key 1: `alg` is HS256, which does not match keys of type RSA; remove one of the two",
        ),
    ] {
        assert_eq!(parse_error(&key), why);
    }
    let many = vec![json!({ "kty": "OKP" }); KEYS_LEN_MAX + 1];
    assert!(
        KeySet::parse(json!({ "keys": many }).to_string().as_bytes())
            .unwrap_err()
            .contains("reduce them to at most 100")
    );
}
