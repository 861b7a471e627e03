//! The bound of a policy while Redis answers, in words.

use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::{Consistency, LimitPolicy, Scope, show_duration_ms, show_units};
use tollgate_core::window::Estimate;

/// Returns the most that a counter admits while Redis answers, as a sentence.
#[must_use]
pub fn bound(policy: &LimitPolicy, scope: Scope) -> String {
    let shown = |units: u64| show_units(units, policy.quota.unit());
    let width = show_duration_ms(policy.quota.width_ms());
    if scope == Scope::Global {
        let quota = shown(policy.units_over_regions());
        return format!("All regions together admit at most {quota} in any {width}.{}", further(policy));
    }
    let most = shown(policy.most_in_window());
    let span = match policy.algorithm {
        Algorithm::Concurrency => return format!("A counter holds at most {most} slots at once.{}", further(policy)),
        Algorithm::FixedWindow => format!("in each window of {width}"),
        Algorithm::SlidingWindow(Estimate::Interpolated) => format!("in any {width} by its estimate"),
        _ => format!("in any {width}"),
    };
    let edge = match policy.edge_units() {
        0 => String::new(),
        _ => format!(", and at most {} in bursts around an edge", shown(policy.most_at_worst())),
    };
    format!("A counter admits at most {most} {span}{}{edge}.{}", terms(policy), further(policy))
}

/// Returns the calls that come on top of a bound, as a further sentence; nothing if the bound holds for all calls.
fn further(policy: &LimitPolicy) -> &'static str {
    match policy.consistency {
        Consistency::Eventual => " Redis is never asked, so the calls until the next signal come on top.",
        _ if policy.admits_late_calls() => " Calls whose answer from Redis is late come on top (`on_failure: open`).",
        _ => "",
    }
}

/// Returns the terms of a bound that is not the quota alone.
fn terms(policy: &LimitPolicy) -> String {
    let shown = |units: u64| show_units(units, policy.quota.unit());
    let quota = shown(policy.quota.units());
    match policy.algorithm {
        _ if policy.burst == 0 || policy.consistency == Consistency::Eventual => String::new(),
        Algorithm::SlidingWindow(_) => format!(" (with its burst; {quota} without)"),
        _ => format!(" ({quota} and a burst of {})", shown(policy.burst)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each kind of bound in words; the figures are those of the table and of `with_store` in the JSON.
    #[test]
    fn a_bound_is_a_sentence() {
        let cases = [
            (
                "quota: 100/min",
                "A counter admits at most 100 in any 1min by its estimate, and at most 200 in bursts around an edge.",
            ),
            ("quota: 100/min, estimate: conservative", "A counter admits at most 100 in any 1min."),
            ("quota: 100/min, consistency: strict", "A counter admits at most 100 in any 1min."),
            (
                "quota: 100/min, algorithm: fixed_window",
                "A counter admits at most 100 in each window of 1min, and at most 200 in bursts around an edge.",
            ),
            (
                "quota: 100/min, algorithm: token_bucket, burst: 20",
                "A counter admits at most 120 in any 1min (100 and a burst of 20).",
            ),
            (
                "quota: 100/min, estimate: conservative, burst: 150",
                "A counter admits at most 150 in any 1min (with its burst; 100 without).",
            ),
            ("quota: 5/15min, algorithm: sliding_log", "A counter admits at most 5 in any 15min."),
            ("quota: 2/10min, algorithm: concurrency", "A counter holds at most 2 slots at once."),
            (
                "quota: 100/min, consistency: eventual, estimate: conservative",
                "A counter admits at most 100 in any 1min. Redis is never asked, so the calls until the next signal come on top.",
            ),
            ("quota: 10MB/min, scope: global", "All regions together admit at most 10MB in any 1min."),
            (
                "quota: 100/min, consistency: strict, on_failure: open",
                "A counter admits at most 100 in any 1min. Calls whose answer from Redis is late come on top (`on_failure: open`).",
            ),
            (
                "quota: 2/10min, algorithm: concurrency, on_failure: open",
                "A counter holds at most 2 slots at once. Calls whose answer from Redis is late come on top (`on_failure: open`).",
            ),
            (
                "quota: 100/min, scope: global, on_failure: open",
                "All regions together admit at most 100 in any 1min. Calls whose answer from Redis is late come on top (`on_failure: open`).",
            ),
            (
                "quota: 100/min, consistency: eventual, estimate: conservative, on_failure: open",
                "A counter admits at most 100 in any 1min. Redis is never asked, so the calls until the next signal come on top.",
            ),
        ];
        for (settings, expected) in cases {
            let yaml =
                format!("regions: {{ eu: {{ floor: 10% }}, us: {{}} }}\nrules: [{{ name: a, per: [ip], {settings} }}]");
            let set = crate::from_yaml("rules.yaml", &yaml, 1).unwrap_or_else(|error| panic!("{error}"));
            let policy = set.rules[0].policy.expect("a policy");
            assert_eq!(bound(&policy, set.rules[0].scope), expected, "{settings}");
        }
    }
}
