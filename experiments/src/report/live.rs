//! The section on real servers: their numbers beside the simulation's, or the command that measures them.

use maud::{Markup, html};

use crate::live::accuracy::{AccuracyReport, AccuracyRow};
use crate::live::failure::FailureReport;
use crate::live::lag::LagReport;

/// Command that measures at real servers.
const COMMAND: &str = "tollgate-lab report --live --redis redis://HOST --kafka HOST:9092";
/// Command that measures failures of servers.
const FAILURE_COMMAND: &str = "tollgate-lab live failure";

/// Measurements at real servers.
#[derive(Clone, Debug)]
pub struct LiveMeasurements {
    /// Accuracy beside its prediction.
    pub accuracy: AccuracyReport,
    /// Lag of signals.
    pub lag: LagReport,
    /// Behaviour under failures; none if the programs of the servers are missing.
    pub failure: Option<FailureReport>,
}

impl LiveMeasurements {
    /// Returns the names and the contents of the files beside the page.
    pub(super) fn json(&self) -> Vec<(&'static str, String)> {
        let mut files = vec![("live-accuracy", self.accuracy.json()), ("live-lag", self.lag.json())];
        files.extend(self.failure.as_ref().map(|failure| ("live-failure", failure.json())));
        files
    }
}

pub(super) fn section(live: Option<&LiveMeasurements>) -> Markup {
    html! {
        section id="live" {
            h2 { "Real servers, and as simulated" }
            @match live {
                Some(live) => (measured(live)),
                None => p { "Not run. " code { (COMMAND) } " adds it." },
            }
        }
    }
}

fn measured(LiveMeasurements { accuracy, lag, failure }: &LiveMeasurements) -> Markup {
    html! {
        h3 { "Accuracy" }
        p { (accuracy.conditions()) }
        div.scroll {
            table.named {
                tr { @for name in ["consistency", "number", "simulated", "real"] { th { (name) } } }
                @for row in &accuracy.rows { (accuracy_row(row)) }
            }
        }
        @for sentence in accuracy.differences() { p { (sentence) "." } }
        h3 { "Lag of signals" }
        div.scroll { pre { (lag) } }
        h3 { "Failing servers" }
        @match failure {
            Some(failure) => div.scroll { pre { (failure) } },
            None => p { "Not run: there is no Kafka in target/servers. Run scripts/servers, and then " code { (FAILURE_COMMAND) } "." },
        }
    }
}

fn accuracy_row(row: &AccuracyRow) -> Markup {
    let [least, most] = row.predicted;
    html! {
        tr.bad[!row.is_as_predicted()] {
            td { (row.consistency) }
            td { (row.name) }
            td { (if least < most { format!("{least:.1} to {most:.1}") } else { format!("{least:.1}") }) }
            td { (format!("{:.1}", row.measured)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_measurements_the_section_names_the_command() {
        let section = section(None).into_string();
        assert!(section.contains("Not run.") && section.contains(COMMAND), "{section}");
    }
}
