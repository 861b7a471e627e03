//! Shorthand of rules, `100/min per ip`, as `--limit` takes it. All other settings have their defaults.

use tollgate_core::rules::{DescriptorSpec, Numbering, Quota, QuotaError, Rule, RuleSet};

/// Reason why texts are not rules in short form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShorthandError {
    /// A text is not `QUOTA per NAMES`.
    #[error("`{0}` is not a limit; write it as \"100/min per ip\" or \"5/15min per api_key, endpoint\"")]
    Form(String),
    /// A text holds several limits, or joins names in another way than by commas.
    #[error(
        "`{0}` is not one limit; repeat the flag for each limit, --limit \"10/s per ip\" --limit \"100/min per ip\", and write names with commas, \"10/s per ip, endpoint\""
    )]
    Several(String),
    /// Two limits have the same descriptors and the same window.
    #[error("`{0}` and `{1}` count the same calls in the same window; leave one out")]
    Twice(String, String),
    /// The quota is invalid.
    #[error(transparent)]
    Quota(#[from] QuotaError),
}

struct Shorthand<'a> {
    text: &'a str,
    quota: Quota,
    /// Descriptors that select the counter.
    per: Vec<&'a str>,
}

/// Returns one rule for each text such as `100/min per ip`, with the default descriptors. The generation is the time of the call. A rule has the name of its
/// descriptors, and that of its window if several rules have the same descriptors.
///
/// # Errors
/// When a text has another form, or two limits differ only in their number.
pub fn from_shorthand(limits: &[impl AsRef<str>], generation: u64) -> Result<RuleSet, ShorthandError> {
    let limits = limits.iter().map(|limit| parse(limit.as_ref().trim())).collect::<Result<Vec<_>, _>>()?;
    let mut rules = Vec::new();
    for (place, limit) in limits.iter().enumerate() {
        let same = |other: &&Shorthand<'_>| other.per == limit.per;
        if let Some(other) =
            limits[..place].iter().filter(same).find(|other| other.quota.width_ms() == limit.quota.width_ms())
        {
            return Err(ShorthandError::Twice(other.text.to_owned(), limit.text.to_owned()));
        }
        let quota = limit.quota.to_string();
        let window = quota.split_once('/').filter(|_| limits.iter().filter(same).count() > 1);
        let window = window.map_or_else(String::new, |(_, window)| format!("/{window}"));
        rules.push(Rule::per(&format!("per-{}{window}", limit.per.join("-")), &limit.per, limit.quota));
    }
    let mut set = RuleSet::new(generation, rules);
    (set.descriptors, set.numbering) = (DescriptorSpec::defaults(), Numbering::LoadTime);
    Ok(set)
}

fn parse(text: &str) -> Result<Shorthand<'_>, ShorthandError> {
    let form = || ShorthandError::Form(text.to_owned());
    let (quota, names) = text.split_once(" per ").ok_or_else(form)?;
    let per: Vec<&str> = names.split([',', ' ']).filter(|name| !name.is_empty()).collect();
    if per.iter().any(|name| name.contains('/') || ["and", "per"].contains(&&*name.to_lowercase())) {
        return Err(ShorthandError::Several(text.to_owned()));
    }
    let is_repeated = |(place, name): (usize, &&str)| per[..place].contains(name);
    if per.is_empty() || per.iter().enumerate().any(is_repeated) {
        return Err(form());
    }
    Ok(Shorthand { text, quota: quota.parse()?, per })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_quota_and_names() {
        for (limits, expected) in [
            (&["60/min per ip"][..], "per-ip 60/min [ip]"),
            (&[" 5/15min per api_key, endpoint"], "per-api_key-endpoint 5/15min [api_key endpoint]"),
            (&["10/s per ip", "100/min per api_key"], "per-ip 10/s [ip], per-api_key 100/min [api_key]"),
            (&["10/s per ip", "100/min per ip"], "per-ip/s 10/s [ip], per-ip/min 100/min [ip]"),
        ] {
            let set = from_shorthand(limits, 1).unwrap();
            let shown = set.rules.iter().map(|rule| {
                let quota = rule.policy.unwrap().quota;
                format!("{} {quota} [{}]", rule.name, rule.per.join(" "))
            });
            assert_eq!(shown.collect::<Vec<_>>().join(", "), expected);
        }
    }

    #[test]
    fn another_form_is_refused_with_the_text() {
        let refused = |limits: &[&str]| from_shorthand(limits, 1).unwrap_err();
        for text in ["60/min", "60/min per", "60/min per ,", "1/s per ip, ip", ""] {
            assert_eq!(refused(&[text]), ShorthandError::Form(text.to_owned()));
        }
        for text in [
            "10/s per ip and 100/min per ip",
            "10/s per ip AND endpoint",
            "10/s per ip, 100/min per ip",
            "10/s per ip per endpoint",
        ] {
            assert_eq!(refused(&[text]), ShorthandError::Several(text.to_owned()));
        }
        assert_eq!(
            refused(&["1/s per ip", "9/1s per ip"]),
            ShorthandError::Twice("1/s per ip".to_owned(), "9/1s per ip".to_owned())
        );
        assert_eq!(refused(&["0/min per ip"]), ShorthandError::Quota(QuotaError::Zero));
    }
}
