//! Valid and invalid tokens of each algorithm. Those of RFC 7515, appendix A, were created by another implementation.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

use super::*;

mod key_set;

const NOW: Timestamp = Timestamp::from_ms(1_800_000_000_000);
/// Time within the validity of the tokens of RFC 7515.
const RFC_NOW: Timestamp = Timestamp::from_ms(1_300_819_379_000);
const RFC_PAYLOAD: &str =
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
const RFC_RSA_N: &str = "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ";
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn verifier(keys: &[Value]) -> Verifier {
    verifier_with(TokenRequirements::default(), keys)
}

fn verifier_with(expected: TokenRequirements, keys: &[Value]) -> Verifier {
    let verifier = Verifier::new(expected);
    verifier.set_keys(KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap());
    verifier
}

fn secret_key() -> Value {
    json!({ "kty": "oct", "k": encoded(SECRET) })
}

fn rsa_key() -> Value {
    json!({ "kty": "RSA", "n": RFC_RSA_N, "e": "AQAB" })
}

/// Creates a token with this header and these claims, signed with a shared secret.
fn hs256(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), signed.as_bytes());
    format!("{signed}.{}", encoded(signature))
}

/// Generates a key and returns it with a function that signs tokens.
fn es256() -> (Value, impl Fn(&Value, &Value) -> String) {
    let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
    let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let jwk = json!({ "kty": "EC", "crv": "P-256", "x": encoded(&point[1..33]), "y": encoded(&point[33..]) });
    let sign = move |header: &Value, claims: &Value| {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = pair.sign(&random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(signature))
    };
    (jwk, sign)
}

/// Keys and tokens of RFC 7515, A.1 to A.3.
fn rfc_7515() -> [(Value, String); 3] {
    let token = |header: &str, signature: &str| format!("{header}.{RFC_PAYLOAD}.{signature}");
    [
        (
            json!({ "kty": "oct", "k": "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow" }),
            token("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
        ),
        (
            rsa_key(),
            token(
                "eyJhbGciOiJSUzI1NiJ9",
                "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
            ),
        ),
        (
            json!({ "kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0" }),
            token(
                "eyJhbGciOiJFUzI1NiJ9",
                "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
            ),
        ),
    ]
}

/// P2: tokens of every algorithm are valid with their key, within their validity times, and without any modification.
#[test]
fn tokens_of_the_standard_are_valid_and_tampered_ones_are_not() {
    let keys = rfc_7515();
    for (place, (key, token)) in keys.iter().enumerate() {
        let one = verifier(std::slice::from_ref(key));
        let claims = one.verify(token, RFC_NOW).unwrap();
        assert_eq!(claims.text("iss").as_deref(), Some("joe"));
        assert_eq!(claims.text("http://example.com/is_root").as_deref(), Some("true"));
        assert_eq!(one.verify(token, RFC_NOW.plus_ms(62_000)).unwrap_err(), TokenError::Expired, "cached, but expired");
        for (at, _) in token.char_indices().filter(|(at, _)| at % 7 == 3) {
            let other = if &token[at..=at] == "A" { "B" } else { "A" };
            let tampered = format!("{}{other}{}", &token[..at], &token[at + 1..]);
            assert!(one.verify(&tampered, RFC_NOW).is_err(), "{at}: {tampered}");
        }
        let (signed, _) = token.rsplit_once('.').unwrap();
        assert_eq!(one.verify(&format!("{signed}."), RFC_NOW).unwrap_err(), TokenError::Signature);
        let another = verifier(&[keys[(place + 1) % 3].0.clone()]);
        assert_eq!(another.verify(token, RFC_NOW).unwrap_err(), TokenError::Algorithm, "a key of another type");
    }
}

#[test]
fn a_token_with_modified_claims_is_rejected() {
    let (key, sign) = es256();
    let verifier = verifier(&[key, secret_key()]);
    let header = json!({ "alg": "ES256" });
    let (free, pro) = (sign(&header, &json!({ "tier": "free" })), sign(&header, &json!({ "tier": "pro" })));
    let (free, pro): (Vec<_>, Vec<_>) = (free.split('.').collect(), pro.split('.').collect());
    let forged = [pro[0], pro[1], free[2]].join(".");
    assert_eq!(verifier.verify(&forged, NOW).unwrap_err(), TokenError::Signature);
    assert!(verifier.verify(&free.join("."), NOW).is_ok());
    let (_, other_sign) = es256();
    assert_eq!(verifier.verify(&other_sign(&header, &json!({})), NOW).unwrap_err(), TokenError::Signature);
    let guessed = hs256(&json!({ "alg": "HS256" }), &json!({}), b"another secret, of at least 32 bytes");
    assert_eq!(verifier.verify(&guessed, NOW).unwrap_err(), TokenError::Signature);
}

/// A public key is not accepted as a shared secret, and `none` is not accepted as an algorithm.
#[test]
fn a_token_cannot_choose_its_algorithm() {
    let rsa = verifier(&[rsa_key()]);
    let modulus = URL_SAFE_NO_PAD.decode(RFC_RSA_N).unwrap();
    for public in [modulus.as_slice(), RFC_RSA_N.as_bytes(), rsa_key().to_string().as_bytes()] {
        let confused = hs256(&json!({ "alg": "HS256" }), &json!({ "sub": "admin" }), public);
        assert_eq!(rsa.verify(&confused, NOW).unwrap_err(), TokenError::Algorithm);
    }
    let verifier = verifier(&[rsa_key(), secret_key()]);
    for alg in ["none", "None", "", "hs256", "HS512", "PS256", "EdDSA"] {
        let header = encoded(json!({ "alg": alg }).to_string());
        let unsigned = format!("{header}.{}.", encoded("{}"));
        assert_eq!(verifier.verify(&unsigned, NOW).unwrap_err(), TokenError::Algorithm, "{alg}");
        let signed = hs256(&json!({ "alg": alg }), &json!({}), SECRET);
        assert_eq!(verifier.verify(&signed, NOW).unwrap_err(), TokenError::Algorithm, "{alg}");
    }
    for header in [json!({ "alg": "HS256", "crit": ["b64"], "b64": false }), json!({ "alg": 1 }), json!({})] {
        assert_eq!(verifier.verify(&hs256(&header, &json!({}), SECRET), NOW).unwrap_err(), TokenError::Malformed);
    }
    let long = hs256(&json!({ "alg": "HS256" }), &json!({ "x": "y".repeat(TOKEN_LEN_MAX) }), SECRET);
    for malformed in ["", ".", "..", "a.b", "a.b.c.d", "e30.e30.", &long, "é.e30.e30"] {
        assert_eq!(verifier.verify(malformed, NOW).unwrap_err(), TokenError::Malformed, "{malformed}");
    }
    let no_object = format!("{}.{}", encoded(r#"{"alg":"HS256"}"#), encoded("[]"));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), no_object.as_bytes());
    let no_object = format!("{no_object}.{}", encoded(signature));
    assert_eq!(verifier.verify(&no_object, NOW).unwrap_err(), TokenError::Malformed);
}

#[test]
fn the_key_id_of_a_token_selects_its_key() {
    let (mut old, sign_old) = es256();
    let (mut new, sign_new) = es256();
    (old["kid"], new["kid"]) = (json!("old"), json!("new"));
    let verifier = verifier(&[old, new, secret_key()]);
    let named = |kid: &str| json!({ "alg": "ES256", "kid": kid });
    assert!(verifier.verify(&sign_new(&named("new"), &json!({})), NOW).is_ok());
    assert!(
        verifier.verify(&sign_old(&json!({ "alg": "ES256" }), &json!({})), NOW).is_ok(),
        "without a key id every key is tried"
    );
    assert_eq!(verifier.verify(&sign_new(&named("old"), &json!({})), NOW).unwrap_err(), TokenError::Signature);
    // The secret has no id, so it matches every token; but it has another algorithm.
    assert_eq!(verifier.verify(&sign_new(&named("gone"), &json!({})), NOW).unwrap_err(), TokenError::Algorithm);
    let (mut only, sign) = es256();
    only["kid"] = json!("only");
    let verifier = self::verifier(&[only]);
    assert_eq!(verifier.verify(&sign(&named("gone"), &json!({})), NOW).unwrap_err(), TokenError::UnknownKey);
}

#[test]
fn issuer_and_audience_must_be_the_required_ones() {
    let expected = TokenRequirements { issuer: Some("https://id.example".into()), audience: Some("api".into()) };
    let verifier = verifier_with(expected, &[secret_key()]);
    let verdict = |claims: Value| verifier.verify(&hs256(&json!({ "alg": "HS256" }), &claims, SECRET), NOW).err();
    assert_eq!(verdict(json!({ "iss": "https://id.example", "aud": "api" })), None);
    assert_eq!(verdict(json!({ "iss": "https://id.example", "aud": ["web", "api"] })), None);
    for iss in [json!("https://id.example/"), json!(["https://id.example"]), json!(null)] {
        assert_eq!(verdict(json!({ "iss": iss, "aud": "api" })), Some(TokenError::Issuer));
    }
    for aud in [json!("apis"), json!(["web"]), json!([]), json!({ "api": 1 })] {
        assert_eq!(verdict(json!({ "iss": "https://id.example", "aud": aud })), Some(TokenError::Audience));
    }
    assert_eq!(verdict(json!({})), Some(TokenError::Issuer));
}

/// Tokens of removed keys are rejected although they were cached.
#[test]
fn new_keys_invalidate_cached_tokens() {
    let verifier = verifier(&[secret_key()]);
    let token = hs256(&json!({ "alg": "HS256" }), &json!({}), SECRET);
    assert!(verifier.verify(&token, NOW).is_ok());
    verifier.set_keys(KeySet::parse(json!({ "keys": [rsa_key()] }).to_string().as_bytes()).unwrap());
    assert_eq!(verifier.verify(&token, NOW).unwrap_err(), TokenError::Algorithm);
}

#[test]
fn rejected_tokens_are_counted_by_reason_and_other_schemes_are_ignored() {
    let verifier = Verifier::new(TokenRequirements::default());
    let claims = |lines: &[String]| {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(AUTHORIZATION, line.parse().unwrap());
        }
        verifier.claims(&headers, NOW)
    };
    let token = hs256(&json!({ "alg": "HS256" }), &json!({ "sub": "u1" }), SECRET);
    assert!(claims(&[format!("Bearer {token}")]).is_none(), "no keys yet");
    verifier.set_keys(KeySet::parse(json!({ "keys": [secret_key()] }).to_string().as_bytes()).unwrap());
    for line in [format!("Bearer {token}"), format!("bEARER   {token} ")] {
        assert_eq!(claims(&[line.clone(), line]).unwrap().text("sub").as_deref(), Some("u1"));
    }
    for other in ["Basic dTpw".to_owned(), "Bear".to_owned(), String::new(), token.clone()] {
        assert!(claims(&[other]).is_none());
    }
    assert!(claims(&[format!("Bearer {token}"), "Basic dTpw".to_owned()]).is_none(), "two different credentials");
    assert!(claims(&[format!("Bearer {token}é")]).is_none());
    let rejected: Vec<_> = verifier.rejected().filter(|(_, count)| *count > 0).collect();
    assert_eq!(rejected, [("malformed", 2), ("no_keys", 1)]);
}

/// `capped`: a flood of valid tokens does not exceed the cap of the cache, and invalid ones are not cached.
#[test]
fn the_cache_of_verified_tokens_has_a_cap() {
    let verifier = verifier(&[secret_key()]);
    let header = json!({ "alg": "HS256" });
    let len = || verifier.trusted.load().as_ref().unwrap().verified.len();
    assert!(verifier.verify(&hs256(&header, &json!({}), b"another secret, of at least 32 bytes"), NOW).is_err());
    assert_eq!(len(), 0);
    for i in 0..2 * TOKENS_LEN_MAX {
        assert!(verifier.verify(&hs256(&header, &json!({ "sub": i }), SECRET), NOW).is_ok());
    }
    assert!((TOKENS_LEN_MAX / 2..=TOKENS_LEN_MAX).contains(&len()), "{}", len());
}
