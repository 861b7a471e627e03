//! JWKS files that are read, and what is said of those that are not.

use serde_json::{Value, json};

use super::super::{KEYS_LEN_MAX, Keys};
use super::RFC_RSA_N;

fn refused(key: &Value) -> String {
    Keys::parse(json!({ "keys": [key] }).to_string().as_bytes()).unwrap_err()
}

#[test]
fn keys_for_other_things_are_passed_over() {
    let keys = json!({ "keys": [
        { "kty": "RSA", "kid": "sig", "alg": "RS256", "use": "sig", "n": RFC_RSA_N, "e": "AQAB", "x5t": "abc", "x5c": ["abc"] },
        { "kty": "RSA", "kid": "enc", "alg": "RSA-OAEP", "use": "enc", "n": RFC_RSA_N, "e": "AQAB" },
        { "kty": "RSA", "alg": "RS512", "n": RFC_RSA_N, "e": "AQAB" },
        { "kty": "OKP", "crv": "Ed25519", "x": "abc" },
        { "kty": "EC", "crv": "P-384", "x": "abc", "y": "abc" },
        { "kty": "oct", "key_ops": ["sign"], "k": "short" },
    ] });
    assert_eq!(Keys::parse(keys.to_string().as_bytes()).unwrap().len(), 1);
    assert!(Keys::parse(br#"{"keys": []}"#).unwrap_err().contains("add the one that your tokens are signed by"));
}

#[test]
fn a_broken_file_is_told_with_its_place_and_a_remedy() {
    let told = Keys::parse(b"{\n \"keys\": [\n  { \"kid\": \"a\" }\n ]\n}").unwrap_err();
    assert!(told.starts_with("missing field `kty` at line 3 column") && told.contains("; write {"), "{told}");
    for (key, why) in [
        (json!({ "kty": "oct", "kid": "a" }), "key 1 (kid `a`): `k` is missing; copy the key whole"),
        (
            json!({ "kty": "oct", "k": "c2hvcnQ" }),
            "key 1: a secret of 5 bytes can be guessed; HS256 wants 32 random bytes in `k`",
        ),
        (json!({ "kty": "oct", "k": "!" }), "key 1: `k` is no base64url; copy the key as it was published"),
        (
            json!({ "kty": "RSA", "n": "AQAB", "e": "AQAB" }),
            "key 1: an RSA key of 24 bits is not safe or too slow; use one of 2048 to 8192",
        ),
        (json!({ "kty": "EC", "crv": "P-256", "x": "AQAB", "y": "AQAB" }), "key 1: `x` has 3 bytes, not 32"),
        (
            json!({ "kty": "RSA", "alg": "HS256", "n": RFC_RSA_N, "e": "AQAB" }),
            "key 1: `alg` is HS256, which no key of type RSA is for; take one of the two away",
        ),
    ] {
        assert_eq!(refused(&key), why);
    }
    let many = vec![json!({ "kty": "OKP" }); KEYS_LEN_MAX + 1];
    assert!(Keys::parse(json!({ "keys": many }).to_string().as_bytes()).unwrap_err().contains("leave at most 100"));
}
