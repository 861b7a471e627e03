//! Counts of sub-windows against the true count of the last minute, on the same calls: what a way of counting reads, and how far
//! it is off. Nothing is limited.
//!
//! The ways are those of Muscat, "Distributed Rate-Limiting Algorithms" (2022), counted by the ring of the product: a fixed window,
//! the current and the previous one weighted, and more and shorter ones. The true count is that of the [`Oracle`].

mod traffic;
mod errors;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;
use serde::Deserialize;
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::Quota;
use tollgate_core::window::{Estimate, Ring, Window};

use super::result::{ResultTable, ScenarioFindings};
use crate::oracle::Oracle;
use errors::{Errors, ratio};
use pictures::plots;
use traffic::BEGIN;

const MINUTE_MS: u64 = 60_000;
const PARTS_MAX: u32 = 60;
const FIXED_WINDOW: &str = "fixed window";

/// Parameters of the experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ApproximationSettings {
    /// Calls per minute that would be admitted.
    limit: u64,
    /// Length of the measurement.
    hours: u64,
    /// Length of the pictures.
    shown_minutes: u64,
    /// Shortest and longest period of one rate.
    period_s: [u64; 2],
    /// Smallest and largest rate.
    calls_per_minute: [u64; 2],
}

/// A way of counting the last minute.
struct Count {
    name: String,
    ring: Ring,
    estimate: Estimate,
}

impl ApproximationSettings {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_range = |[least, most]: [u64; 2], max| least <= most && (1..=max).contains(&most);
        if !(1..=100_000).contains(&self.limit) {
            return Err("`limit` is 1 to 100000 calls");
        }
        if !(1..=1_000).contains(&self.hours) {
            return Err("`hours` is 1 to 1000");
        }
        if !(1..=60).contains(&self.shown_minutes) {
            return Err("`shown_minutes` is 1 to 60");
        }
        if self.period_s[0] == 0 || !is_range(self.period_s, 3_600) {
            return Err("`period_s` is a range of 1 to 3600, the shorter first");
        }
        if !is_range(self.calls_per_minute, 1_000_000) {
            return Err("`calls_per_minute` is a range of 0 to 1000000, the smaller first");
        }
        Ok(())
    }
}

impl Count {
    fn new(parts: u32, estimate: Estimate) -> Self {
        let window = Window::new(MINUTE_MS, parts).expect("the number divides the minute");
        let name = if estimate == Estimate::Ignored {
            FIXED_WINDOW.to_owned()
        } else {
            format!("{parts} of {} s", f64::from(60) / f64::from(parts))
        };
        Self { name, ring: Ring::new(window), estimate }
    }

    /// Returns the number of counters that a call reads.
    fn reads(&self) -> u32 {
        self.ring.window().parts() + u32::from(self.estimate != Estimate::Ignored)
    }

    fn at(&self, now: Timestamp) -> u64 {
        self.ring.used(now, self.estimate)
    }
}

/// Runs the experiment.
pub(super) fn run(settings: &ApproximationSettings, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
    let limit = settings.limit;
    let (interpolated, conservative) = (numbers_of_parts(), numbers_of_parts());
    let mut counts = vec![Count::new(1, Estimate::Ignored)];
    counts.extend(interpolated.map(|parts| Count::new(parts, Estimate::Interpolated)));
    counts.extend(conservative.map(|parts| Count::new(parts, Estimate::Conservative)));
    bar.set_length(settings.hours * 60);
    let errors = errors_by_call(traffic::random(settings, seed), &mut counts, limit, |at| {
        bar.set_position(at.ms_since(BEGIN) / MINUTE_MS);
    });
    let of = |name: &str| counts.iter().position(|count| count.name == name).map(|index| &errors[index]);
    let shown = [FIXED_WINDOW, "1 of 60 s", "4 of 15 s", "12 of 5 s", "60 of 1 s"];
    let mut numbers = IndexMap::new();
    for name in shown {
        let errors = of(name).expect("it is counted");
        numbers.insert(format!("{name}: mean error"), errors.mean());
        numbers.insert(format!("{name}: passed wrongly, %"), errors.passed_percent());
        numbers.insert(format!("{name}: denied wrongly, %"), errors.denied_percent());
    }
    predicted(limit, &mut numbers);
    let (two, five, thirteen) =
        (numbers["1 of 60 s: mean error"], numbers["4 of 15 s: mean error"], numbers["12 of 5 s: mean error"]);
    ScenarioFindings {
        finding: format!(
            "A fixed window lets {:.0}% of the calls past the limit pass. The current and the previous minute together are {two:.1} \
             calls off on average, five windows of 15 s {five:.1}, and thirteen of 5 s, the default of Tollgate, {thirteen:.1}.",
            numbers[&format!("{FIXED_WINDOW}: passed wrongly, %")]
        ),
        tables: vec![table(&counts, &errors, limit)],
        plots: plots(settings, seed, &counts, &errors, &numbers),
        numbers,
    }
}

/// Returns the numbers of sub-windows that divide the minute.
fn numbers_of_parts() -> impl Iterator<Item = u32> {
    (1..=PARTS_MAX).filter(|parts| MINUTE_MS.is_multiple_of(u64::from(*parts)))
}

/// Counts calls in all ways, and returns the errors of each at the instants of the calls.
fn errors_by_call(
    calls: impl Iterator<Item = Timestamp>,
    counts: &mut [Count],
    limit: u64,
    progress: impl Fn(Timestamp),
) -> Vec<Errors> {
    let (mut truth, mut errors) = (truth(), vec![Errors::default(); counts.len()]);
    for at in calls {
        progress(at);
        truth.admit(at, 1);
        for (count, errors) in counts.iter_mut().zip(&mut errors) {
            count.ring.add_at(at, 1);
            errors.enter(count.at(at), truth.units(), limit);
        }
    }
    errors
}

/// Returns the exact count of the last minute.
fn truth() -> Oracle {
    Oracle::new(Quota::new(u64::MAX / 2, MINUTE_MS).expect("a quota that nobody reaches"))
}

/// Enters the errors of the current and the previous minute where the article predicts them: none under constant load, too much
/// after an early burst, too little after a late one, as long as the previous minute is in the window.
fn predicted(limit: u64, numbers: &mut IndexMap<String, f64>) {
    let both = || Count::new(1, Estimate::Interpolated);
    let constant = errors_by_call(traffic::constant(limit), &mut [both()], limit, |_| {});
    let largest = constant[0].most.unsigned_abs().max(constant[0].least.unsigned_abs());
    numbers.insert("constant load: largest error".to_owned(), ratio(largest, 1));
    for (name, from_s) in [("early", 0), ("late", 50)] {
        let (mut count, mut truth, mut errors) = (both(), truth(), Errors::default());
        for at in traffic::burst(limit, from_s) {
            truth.admit(at, 1);
            count.ring.add_at(at, 1);
        }
        for second in 0..60 {
            let now = BEGIN.plus_ms(MINUTE_MS + second * 1_000);
            truth.has_room(now, 0);
            errors.enter(count.at(now), truth.units(), limit);
        }
        numbers.insert(format!("{name} in the previous minute: mean error"), errors.bias());
    }
}

fn table(counts: &[Count], errors: &[Errors], limit: u64) -> ResultTable {
    let shown = |parts| [1, 2, 4, 6, 12, 30, 60].contains(&parts);
    let row = |(count, errors): (&Count, &Errors)| {
        let name = match count.estimate {
            Estimate::Conservative => format!("{}, conservative", count.name),
            _ => count.name.clone(),
        };
        vec![
            name,
            count.reads().to_string(),
            format!("{:.2}", errors.mean()),
            format!("{:+.2}", errors.bias()),
            format!("{:+}", errors.least),
            format!("{:+}", errors.most),
            format!("{:.1}%", errors.passed_percent()),
            format!("{:.1}%", errors.denied_percent()),
        ]
    };
    let rows = counts.iter().zip(errors).filter(|(count, _)| shown(count.ring.window().parts()));
    ResultTable {
        caption: format!(
            "Errors in calls, at the instants of the calls; the limit is {limit} a minute. passed: part of the calls past the limit \
             that the count would admit. denied: part of the others that it would deny. conservative: the oldest sub-window counts \
             whole."
        ),
        header: ["count", "reads", "mean", "bias", "least", "most", "passed", "denied"].map(str::to_owned).to_vec(),
        rows: rows.map(row).collect(),
    }
}
