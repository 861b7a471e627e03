//! Layers of settings become policy.

use std::time::Duration;

use super::settings::{Allowed, Burst, Kind, Settings};
use tollgate_core::algorithm::Algorithm;
use tollgate_core::rules::Unit;
use tollgate_core::rules::{
    Consistency, DEADLINE_MS_DEFAULT, LimitPolicy, OnFailure, Quota, burst_default, show_units,
};
use tollgate_core::window::{Estimate, Window};

/// Why layers make no policy: the line of the setting, if it is one setting's fault, and the reason.
pub(super) type Unfit = (Option<usize>, String);

/// What a rule asks by its `own` settings, and where they say nothing by those that it inherits; none when it does not limit.
/// What an algorithm does not know is refused among a rule's own settings, and does not matter among inherited ones.
pub(super) fn resolve(own: &Settings, inherited: &Settings) -> Result<Option<LimitPolicy>, Unfit> {
    let all = own.over(*inherited);
    let kind = all.algorithm.map_or(Kind::SlidingWindow, |said| said.value);
    refuse_foreign(kind, own)?;
    let quota = match all.quota.map(|said| said.value) {
        Some(Allowed::UpTo(quota)) => quota,
        Some(Allowed::Unlimited) => return Ok(None),
        None => return Err((None, "the rule has no `quota`".to_owned())),
    };
    let consistency = all.consistency.map_or(Consistency::Bounded, |said| said.value);
    let algorithm = match kind {
        Kind::SlidingWindow => {
            Algorithm::SlidingWindow(all.estimate.map_or_else(|| usual_estimate(consistency), |said| said.value))
        }
        Kind::SlidingLog => Algorithm::SlidingLog,
        Kind::FixedWindow => Algorithm::FixedWindow,
        Kind::TokenBucket => Algorithm::TokenBucket,
        Kind::LeakyBucket => Algorithm::LeakyBucket,
        Kind::Concurrency => Algorithm::Concurrency,
    };
    let policy = LimitPolicy {
        quota,
        window: window(kind, quota, &all)?,
        algorithm,
        burst: burst(kind, quota, &all)?,
        consistency,
        on_failure: all.on_failure.map_or(OnFailure::Share, |said| said.value),
        deadline: Duration::from_millis(all.deadline_ms.map_or(DEADLINE_MS_DEFAULT, |said| said.value)),
    };
    let burst_line = own.burst.map(|said| said.line);
    policy.check().map_err(|error| (burst_line.or(own.quota.map(|said| said.line)), error.to_string()))?;
    Ok(Some(policy))
}

fn refuse_foreign(kind: Kind, own: &Settings) -> Result<(), Unfit> {
    let name = kind.name();
    if kind != Kind::SlidingWindow {
        if let Some(said) = own.estimate {
            let why = if kind == Kind::SlidingLog { "is exact and" } else { "estimates nothing and" };
            return Err((Some(said.line), format!("a `{name}` {why} takes no `estimate`; remove it")));
        }
        if let Some(said) = own.sub_windows {
            return Err((Some(said.line), format!("a `{name}` has no `sub_windows`; remove them")));
        }
    }
    if let (false, Some(said)) = (has_burst(kind), own.burst.filter(|said| !matches!(said.value, Burst::Usual))) {
        let text = format!(
            "a `{name}` lets nothing beyond its quota pass and takes no burst; remove it, or use sliding_window, token_bucket or leaky_bucket"
        );
        return Err((Some(said.line), text));
    }
    Ok(())
}

const fn has_burst(kind: Kind) -> bool {
    matches!(kind, Kind::SlidingWindow | Kind::TokenBucket | Kind::LeakyBucket)
}

const fn usual_estimate(consistency: Consistency) -> Estimate {
    match consistency {
        Consistency::Strict => Estimate::Conservative,
        Consistency::Bounded => Estimate::Interpolated,
    }
}

fn window(kind: Kind, quota: Quota, all: &Settings) -> Result<Window, Unfit> {
    let window = match all.sub_windows {
        Some(parts) if kind == Kind::SlidingWindow => Window::new(quota.width_ms(), parts.value),
        _ if kind == Kind::FixedWindow => Window::new(quota.width_ms(), 1),
        _ => Window::with_default_parts(quota.width_ms()),
    };
    let line = all.sub_windows.map(|said| said.line);
    window.map_err(|error| (line, format!("{error}; leave `sub_windows` out to have it chosen")))
}

fn burst(kind: Kind, quota: Quota, all: &Settings) -> Result<u64, Unfit> {
    let usual = if kind == Kind::SlidingWindow { 0 } else { burst_default(quota) };
    match all.burst {
        _ if !has_burst(kind) => Ok(0),
        None => Ok(usual),
        Some(said) => match said.value {
            Burst::Usual => Ok(usual),
            Burst::Units(units, unit) if unit == Unit::Calls || unit == quota.unit() => Ok(units),
            Burst::Units(units, unit) => {
                let text = format!("a burst of {} is of another unit than {quota}", show_units(units, unit));
                Err((Some(said.line), format!("{text}; write both in the same")))
            }
            Burst::Times(times, of) => {
                let units = u128::from(quota.units()) * u128::from(times) / u128::from(of);
                Ok(u64::try_from(units).unwrap_or(u64::MAX).max(1))
            }
        },
    }
}
