//! Validation of the claims of a token with a valid signature: validity times, issuer and audience.

use std::time::Duration;

use serde_json::Value;
use tollgate_core::clock::Timestamp;

use super::token_error::TokenError;
use crate::request::Claims;

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

impl Claims {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn claims(value: Value) -> Claims {
        Claims(serde_json::from_value(value).unwrap())
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
