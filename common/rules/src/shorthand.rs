//! Shorthand of one rule, `100/min per ip`, as `--limit` takes it. All other settings have their defaults.

use tollgate_core::rules::{DescriptorSpec, QuotaError, Rule, RuleSet};

/// Reason why a text is not a rule in short form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShorthandError {
    /// The text is not `QUOTA per NAMES`.
    #[error("`{0}` is not a limit; write it as \"100/min per ip\" or \"5/15min per api_key, endpoint\"")]
    Form(String),
    /// The quota is invalid.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

/// Returns one rule from `100/min per ip`, with the default descriptors.
///
/// # Errors
/// When the text has another form.
pub fn from_shorthand(text: &str, generation: u64) -> Result<RuleSet, ShorthandError> {
    let (quota, names) = text.split_once(" per ").ok_or_else(|| ShorthandError::Form(text.to_owned()))?;
    let names: Vec<&str> = names.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Err(ShorthandError::Form(text.to_owned()));
    }
    let rule = Rule::per(&format!("per-{}", names.join("-")), &names, quota.parse()?);
    Ok(RuleSet { descriptors: DescriptorSpec::defaults(), ..RuleSet::new(generation, [rule]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_quota_and_names() {
        let set = from_shorthand("60/min per ip", 1).unwrap();
        assert_eq!(
            (&*set.rules[0].name, set.rules[0].policy.unwrap().quota.to_string().as_str()),
            ("per-ip", "60/min")
        );
        let set = from_shorthand("5/15min per api_key, endpoint", 1).unwrap();
        assert_eq!(set.rules[0].per.len(), 2);
        assert!(matches!(from_shorthand("60/min", 1), Err(ShorthandError::Form(_))));
        assert!(matches!(from_shorthand("0/min per ip", 1), Err(ShorthandError::Quota(QuotaError::Zero))));
    }
}
