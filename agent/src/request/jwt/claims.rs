//! Claims of a token with a valid signature: checks of validity times, issuer and audience, and access by path.

use std::time::Duration;

use serde_json::{Map, Value};
use tollgate_core::clock::Timestamp;

use super::TokenError;

/// Maximum clock difference between the token's issuer and this agent, in s.
pub const LEEWAY_S: u64 = 60;

/// Requirements that every token must meet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRequirements {
    /// Required issuer (`iss`).
    pub issuer: Option<String>,
    /// Required audience, which must be one of the token's (`aud`).
    pub audience: Option<String>,
}

/// Claims of a token whose signature is valid.
#[derive(Debug)]
pub struct Claims(Map<String, Value>);

impl Claims {
    pub(super) fn new(claims: Map<String, Value>) -> Self {
        Self(claims)
    }

    /// Returns the claim at a path such as `sub` or `realm.tier` as text. A claim whose own name contains dots takes
    /// precedence. Only strings, numbers and booleans have a text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        match find(&self.0, path)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Checks the claims against the requirements at `now`. A token without validity times is always valid.
    pub(super) fn validate(&self, requirements: &TokenRequirements, now: Timestamp) -> Result<(), TokenError> {
        let now_s = Duration::from_millis(now.as_ms()).as_secs_f64();
        let leeway_s = Duration::from_secs(LEEWAY_S).as_secs_f64();
        if self.seconds("exp")?.is_some_and(|exp_s| now_s >= exp_s + leeway_s) {
            return Err(TokenError::Expired);
        }
        if self.seconds("nbf")?.is_some_and(|nbf_s| now_s + leeway_s < nbf_s) {
            return Err(TokenError::NotYetValid);
        }
        if requirements.issuer.as_ref().is_some_and(|issuer| !names(self.0.get("iss"), issuer)) {
            return Err(TokenError::Issuer);
        }
        let is_for = |audience| match self.0.get("aud") {
            Some(Value::Array(all)) => all.iter().any(|one| names(Some(one), audience)),
            one => names(one, audience),
        };
        if requirements.audience.as_ref().is_some_and(|audience| !is_for(audience)) {
            return Err(TokenError::Audience);
        }
        Ok(())
    }

    /// Returns seconds since the Unix epoch. A claim that is not a number is an error, because a token would otherwise
    /// never expire.
    fn seconds(&self, name: &str) -> Result<Option<f64>, TokenError> {
        self.0.get(name).map(|value| value.as_f64().ok_or(TokenError::Malformed)).transpose()
    }
}

fn names(value: Option<&Value>, expected: &str) -> bool {
    value.and_then(Value::as_str) == Some(expected)
}

/// Finds the claim with the longest matching name first, so that `https://example.com/tier` and
/// `https://example.com/realm.tier` are found as well.
fn find<'a>(claims: &'a Map<String, Value>, path: &str) -> Option<&'a Value> {
    claims.get(path).or_else(|| {
        path.rmatch_indices('.').find_map(|(dot, _)| find(claims.get(&path[..dot])?.as_object()?, &path[dot + 1..]))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        Claims::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_path_finds_text_numbers_and_truth_values() {
        let claims = claims(json!({
            "sub": "u1", "limit": 500, "big": u64::MAX, "beta": true, "roles": ["a"], "none": null, "a": { "b": { "c": "deep" } },
            "https://example.com/tier": "pro", "https://example.com/realm": { "tier": "gold" }, "a.b": { "c": "whole", "x": 1 },
        }));
        for (path, text) in [
            ("sub", Some("u1")),
            ("limit", Some("500")),
            ("big", Some("18446744073709551615")),
            ("beta", Some("true")),
            ("roles", None),
            ("none", None),
            ("a", None),
            ("sub.x", None),
            ("https://example.com/tier", Some("pro")),
            ("https://example.com/realm.tier", Some("gold")),
            ("a.b.c", Some("whole")),
            ("a.b.x", Some("1")),
            ("", None),
            (".", None),
        ] {
            assert_eq!(claims.text(path).as_deref(), text, "{path}");
        }
    }

    #[test]
    fn validity_times_have_a_leeway() {
        let check = |value, now_s: u64| {
            claims(value).validate(&TokenRequirements::default(), Timestamp::from_ms(now_s * 1_000))
        };
        assert_eq!(check(json!({ "exp": 1_000 }), 1_059), Ok(()));
        assert_eq!(check(json!({ "exp": 1_000 }), 1_060), Err(TokenError::Expired));
        assert_eq!(check(json!({ "exp": 1_000.5 }), 1_060), Ok(()));
        assert_eq!(check(json!({ "nbf": 1_000 }), 940), Ok(()));
        assert_eq!(check(json!({ "nbf": 1_000 }), 939), Err(TokenError::NotYetValid));
        assert_eq!(check(json!({}), u64::MAX / 1_000), Ok(()));
        for never in [json!({ "exp": "never" }), json!({ "exp": null }), json!({ "nbf": [] })] {
            assert_eq!(check(never, 0), Err(TokenError::Malformed));
        }
    }
}
