//! Numbers, sentence and table of the experiment.

use indexmap::IndexMap;
use tollgate_sim::figures::ratio;

use super::course::{Course, Courses, RUNS, ScaleOutRun};
use super::settings::ScaleOutSettings;
use crate::scenario::ResultTable;

#[expect(clippy::cast_precision_loss, reason = "times of requests")]
pub(super) fn numbers(settings: &ScaleOutSettings, courses: &Courses) -> IndexMap<String, f64> {
    let mut numbers = IndexMap::new();
    numbers.insert("bound of an outage, % of quota".to_owned(), settings.percent(courses.bound));
    let runs = RUNS.iter().map(|run| run.name).zip(&courses.runs);
    for (name, course) in runs.chain([("sticky", &courses.sticky)]) {
        let mut insert = |number: &str, value| numbers.insert(format!("{name}: {number}"), value);
        insert("worst window while agents join, % of quota", settings.percent(course.joining.worst_window));
        insert("worst window while agents leave, % of quota", settings.percent(course.leaving.worst_window));
        insert("worst window, % of bound", 100.0 * ratio(course.tally().worst_window, courses.bound));
        insert("admitted, % of strict", admitted_percent(courses, course));
    }
    for (ScaleOutRun { name, .. }, course) in RUNS.iter().zip(&courses.runs) {
        let mut insert = |number: &str, value| numbers.insert(format!("{name}: {number}"), value);
        insert("longest wait, ms", course.tally().longest_ms as f64);
        insert("smallest known fleet at the peak", f64::from(course.known_at_peak));
        insert("largest known fleet at the end", f64::from(course.known_at_end));
    }
    numbers
}

/// States the fullest windows.
pub(super) fn finding(settings: &ScaleOutSettings, courses: &Courses) -> String {
    let ([least, most], percent) = (settings.agents, |units| settings.percent(units));
    let [strict, strict_lost, bounded_lost] = &courses.runs[..] else { return String::new() };
    let both = |course: &Course| {
        let Course { joining, leaving, .. } = course;
        format!(
            "{:.0}% while agents join and {:.0}% while they leave",
            percent(joining.worst_window),
            percent(leaving.worst_window)
        )
    };
    let lost_s: u64 = settings.lost_s.iter().map(|[begin, end]| end - begin).sum();
    format!(
        "While a fleet grows from {least} to {most} agents within {} s at a demand of {} quotas, and shrinks again within {} s, the \
         fullest window of a caller under `strict` holds {:.0}% of the quota. If the store is lost for {lost_s} s meanwhile, it holds \
         {} under `strict`, and {} under `bounded`; the printed bound is {:.0}%. Sticky sessions hold {:.0}%, because callers move to \
         nodes that do not know their counts.",
        settings.up_s,
        settings.demand,
        settings.down_s,
        percent(strict.tally().worst_window),
        both(strict_lost),
        both(bounded_lost),
        percent(courses.bound),
        percent(courses.sticky.tally().worst_window)
    )
}

pub(super) fn table(settings: &ScaleOutSettings, courses: &Courses) -> ResultTable {
    let row = |(name, course): (&str, &Course)| {
        let tally = course.tally();
        vec![
            name.to_owned(),
            format!("{:.1}%", settings.percent(course.joining.worst_window)),
            format!("{:.1}%", settings.percent(course.leaving.worst_window)),
            format!("{:.0}%", 100.0 * ratio(tally.worst_window, courses.bound)),
            format!("{:.0}%", admitted_percent(courses, course)),
            format!("{} ms", tally.longest_ms),
        ]
    };
    let runs = RUNS.iter().map(|run| run.name).zip(&courses.runs);
    ResultTable {
        caption: "Fullest window of a caller in percent of the quota, while agents join and while they leave, and in percent of the \
                  bound of an outage; admitted calls in percent of those of `strict`; longest time to an answer"
            .to_owned(),
        header: ["", "join", "leave", "of the bound", "admitted", "wait"].map(str::to_owned).to_vec(),
        rows: runs.chain([("sticky", &courses.sticky)]).map(row).collect(),
    }
}

/// Returns the admissions in percent of those of the first run.
fn admitted_percent(courses: &Courses, course: &Course) -> f64 {
    100.0 * ratio(course.tally().admitted, courses.runs[0].tally().admitted)
}
