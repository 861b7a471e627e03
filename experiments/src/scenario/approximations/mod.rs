//! Counts of sub-windows against the true count of the last minute, on the same calls: what a way of counting reads, and how far
//! it is off. Nothing is limited.
//!
//! The ways are those of Muscat, "Distributed Rate-Limiting Algorithms" (2022), counted by the ring of the product: a fixed window,
//! the current and the previous one weighted, and more and shorter ones. The true count is that of the
//! [`Oracle`](tollgate_sim::oracle::Oracle).

mod settings;
mod count;
mod traffic;
mod errors;
mod pictures;

use indexmap::IndexMap;
use indicatif::ProgressBar;
use tollgate_core::clock::Timestamp;
use tollgate_core::window::Estimate;

use super::arrivals::{BEGIN, MINUTE_MS};
use super::experiment::Experiment;
use super::result::{ResultTable, ScenarioFindings};
use super::setting_error::SettingError;
use count::{Count, FIXED_WINDOW, PARTS_MAX, truth};
use errors::Errors;
use pictures::plots;
pub(super) use settings::ApproximationSettings;

impl Experiment for ApproximationSettings {
    fn check(&self) -> Result<(), SettingError> {
        let ascends = |key, [least, most]: [u64; 2]| {
            let refused = || SettingError::new(key, format!("is {least} to {most}; write the smaller first"));
            if least <= most { Ok(()) } else { Err(refused()) }
        };
        SettingError::unless_in("limit", self.limit, 1..=100_000)?;
        SettingError::unless_in("hours", self.hours, 1..=1_000)?;
        SettingError::unless_in("shown_minutes", self.shown_minutes, 1..=60)?;
        for seconds in self.period_s {
            SettingError::unless_in("period_s", seconds, 1..=3_600)?;
        }
        ascends("period_s", self.period_s)?;
        for rate in self.calls_per_minute {
            SettingError::unless_in("calls_per_minute", rate, 0..=10_000)?;
        }
        ascends("calls_per_minute", self.calls_per_minute)
    }

    fn names(&self) -> Vec<String> {
        let counts = counts();
        numbers(&counts, &vec![Errors::default(); counts.len()], 1).into_keys().collect()
    }

    fn run(&self, seed: u64, bar: &ProgressBar) -> ScenarioFindings {
        let limit = self.limit;
        let mut counts = counts();
        bar.set_length(self.hours * 60);
        let errors = errors_by_call(traffic::random(self, seed), &mut counts, limit, |at| {
            bar.set_position(at.ms_since(BEGIN) / MINUTE_MS);
        });
        let numbers = numbers(&counts, &errors, limit);
        let (two, five, thirteen) =
            (numbers["1 of 60 s: mean error"], numbers["4 of 15 s: mean error"], numbers["12 of 5 s: mean error"]);
        ScenarioFindings {
            finding: format!(
                "A fixed window counts {:.0}% of the calls past the limit as within it. The current and the previous minute together are {two:.1} \
                 calls off on average, five windows of 15 s {five:.1}, and thirteen of 5 s, the default of Tollgate, {thirteen:.1}.",
                numbers[&format!("{FIXED_WINDOW}: passed wrongly, %")]
            ),
            tables: vec![table(&counts, &errors, limit)],
            plots: plots(self, seed, &counts, &errors, &numbers),
            numbers,
        }
    }
}

fn counts() -> Vec<Count> {
    let of_estimate = |estimate| numbers_of_parts().map(move |parts| Count::new(parts, estimate));
    let composed = [Estimate::Interpolated, Estimate::Conservative].into_iter().flat_map(of_estimate);
    std::iter::once(Count::new(1, Estimate::Ignored)).chain(composed).collect()
}

/// Returns the numbers of a few ways of counting, and those that the article predicts.
fn numbers(counts: &[Count], errors: &[Errors], limit: u64) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    for name in [FIXED_WINDOW, "1 of 60 s", "4 of 15 s", "12 of 5 s", "60 of 1 s"] {
        let position = counts.iter().position(|count| count.name == name).expect("it is counted");
        let errors = &errors[position];
        numbers.insert(format!("{name}: mean error"), errors.mean());
        numbers.insert(format!("{name}: passed wrongly, %"), errors.passed_percent());
        numbers.insert(format!("{name}: denied wrongly, %"), errors.denied_percent());
    }
    predicted(limit, &mut numbers);
    numbers
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

/// Enters the errors of the current and the previous minute where the article predicts them: none under constant load, too much
/// after an early burst, too little after a late one, as long as the previous minute is in the window.
fn predicted(limit: u64, numbers: &mut IndexMap<String, f64>) {
    let both = || Count::new(1, Estimate::Interpolated);
    let constant = errors_by_call(traffic::constant(limit), &mut [both()], limit, |_| {});
    numbers.insert("constant load: largest error".to_owned(), constant[0].largest());
    for (name, from_s) in [("early", 0), ("late", 50)] {
        let (mut count, mut truth, mut errors) = (both(), truth(), Errors::default());
        for at in traffic::burst(limit, from_s) {
            truth.admit(at, 1);
            count.ring.add_at(at, 1);
        }
        for second in 0..60 {
            let now = BEGIN.plus_ms(MINUTE_MS + second * 1_000);
            truth.move_to(now);
            errors.enter(count.at(now), truth.units(), limit);
        }
        numbers.insert(format!("{name} in the previous minute: bias"), errors.bias());
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
    let rows = counts.iter().zip(errors).filter(|(count, _)| shown(count.ring.window().sub_windows()));
    ResultTable {
        caption: format!(
            "Errors in calls, at the instants of the calls; the limit is {limit} a minute. passed: part of the calls past the limit \
             that the count would admit. denied: part of the others that it would deny. conservative: the oldest sub-window counts \
             whole. Estimates are rounded down to whole calls."
        ),
        header: ["count", "reads", "mean", "bias", "least", "most", "passed", "denied"].map(str::to_owned).to_vec(),
        rows: rows.map(row).collect(),
    }
}
