//! Bearer tokens, from the command line to the answer.

use crate::support::{Up, file, finish, tollgate, wait_for};

const RULES: &str = "
descriptors:
  user: { jwt: sub, default: anon }
  tier: { jwt: realm.tier, default: free }
tiers: { free: { quota: 2/min }, pro: { quota: 20/min } }
rules: [{ name: by-user, per: [user], quota: tier, consistency: strict }]
";
/// `{"iss":"https://id.example","aud":["web","api"],"sub":"u1","realm":{"tier":"pro"}}`, signed by the key with openssl.
pub(crate) const TOKEN: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjIwMjYifQ.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOlsid2ViIiwiYXBpIl0sInN1YiI6InUxIiwicmVhbG0iOnsidGllciI6InBybyJ9fQ.KEEdv7GR03BDFmvTFVUgLiVmbzFPTCyAjQlQBE_OxSPgyXrKvXGf-JDKw1e_oB8gFIpQsVU_7byIB5dKNqqNyzRQToT4oTFHrkTU2MIFI4Q5N5335RVA_WEpcLHX3ROsSMWxRUBbID4L1wNqJwN8M4G2fNSLfo3EAnc0jJc0CwiIny9thoZF54M-c9yVXzkDxiPjzsjnffhfXTDNNVXd5ulnccqZ-uHG4S45upYxImPQK_c_OSh5pAtWOhB7SJAPbj0BvNKHR2s6b5grym02vIJns1NEr9Od7-qOZJH9x5qVaFTHbnYw4R_g9b3EM8xRB4L_3SWfQNEHQsvA1rVJ3Q";
pub(crate) const JWKS: &str = r#"{"keys": [{"kty": "RSA", "kid": "2026", "use": "sig", "alg": "RS256", "n": "pEMxOPIx5qV_8Zd4trSigh-5H_KhUSfSkYHiU8FEHngPvpDnN0hOwMYvuSHhNjn3iE1Jty5ixrMxtEQctW2n7Dh2_UDRbe9hWjQ_x5YnceiXT-DuIzSBiogYkEA_yQNtfcof7gRMghRTEsD5ExPUf6cdMQ2sCkU1E7wc-9PXHgDEBwrrXhQBcgPhhPUBVpvfOOFMoTZVZK1kSBJNhVRdcO_Afe9Go6VUL4IErvMWc4u3LASq0jsuhpCgZZJPjC40XAsblkBBfRbuWndNOLgefdQYsmQwQIJoVknnBPAuYT39L8ha_iMIF2xKBeAhf8MasWPDGMSJgW4ZEoG-Vclu4Q", "e": "AQAB"}]}"#;

fn limit(up: &Up, token: &str) -> String {
    let bearer = format!("Bearer {token}");
    up.client().get("/check", &[("authorization", &bearer)]).header("x-ratelimit-limit").to_owned()
}

/// P2, F16: a claim of a token selects counter and tier if a key of the file signed it. Changes of the file take effect.
#[test]
fn a_token_selects_counter_and_tier_as_long_as_its_key_is_trusted() {
    let (rules, keys) = (file("tokens.yaml", RULES), file("tokens.jwks", JWKS));
    let (rules, path) = (rules.to_str().unwrap(), keys.to_str().unwrap());
    let up =
        Up::start(&["--rules", rules, "--jwks", path, "--jwt-issuer", "https://id.example", "--jwt-audience", "api"]);
    assert_eq!(limit(&up, TOKEN), "20");
    assert_eq!(limit(&up, &TOKEN[..TOKEN.len() - 4]), "2", "not signed by the key");

    file("tokens.jwks", "{\"keys\": []}");
    let told = wait_for("the broken file to be told", || {
        up.client().get("/healthz", &[]).json()["keys_error"].as_str().map(str::to_owned)
    });
    assert!(told.contains("tokens.jwks: no key for HS256, RS256 or ES256 signatures; add the key"), "{told}");
    assert_eq!(limit(&up, TOKEN), "20", "the old keys stay");

    let another = r#"{"keys": [{"kty": "oct", "k": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}"#;
    file("tokens.jwks", another);
    wait_for("the key to be trusted no more", || (limit(&up, TOKEN) == "2").then_some(()));
}

#[test]
fn a_token_for_someone_else_or_without_keys_is_none() {
    let (rules, keys) = (file("audience.yaml", RULES), file("audience.jwks", JWKS));
    let (rules, keys) = (rules.to_str().unwrap(), keys.to_str().unwrap());
    let up = Up::of(
        tollgate(&["up", "--http", "127.0.0.1:0", "--rules", rules])
            .env("TOLLGATE_JWKS", keys)
            .env("TOLLGATE_JWT_AUDIENCE", "admin"),
    );
    assert_eq!(limit(&up, TOKEN), "2");
    let metrics = up.client().get("/metrics", &[]);
    assert!(metrics.text().contains("tollgate_jwt_rejected_total{reason=\"audience\"} 1"), "{}", metrics.text());

    let up = Up::start(&["--rules", rules]);
    assert_eq!(limit(&up, TOKEN), "2");
    up.signal("TERM");
    let (_, err) = up.end();
    assert!(err.contains("rules use claims of tokens, and no keys are set"), "told at start: {err}");
    assert!(err.contains("set the keys with --jwks FILE"), "{err}");
}

#[test]
fn a_broken_file_of_keys_is_refused_at_the_start() {
    let keys = file("broken.jwks", "{\"keys\": [{\"kty\": \"oct\", \"kid\": \"k1\", \"k\": \"c2hvcnQ\"}]}");
    let said = finish(&mut tollgate(&["up", "--jwks", keys.to_str().unwrap()]));
    let told = "broken.jwks: key 1 (kid `k1`): a secret of 5 bytes can be guessed; HS256 needs 32 random bytes in `k`";
    assert_eq!((said.exit, said.err.contains(told)), (2, true), "{}", said.err);
}
