//! Results of all deployments, as text and as one JSON object.

use std::fmt;

use serde::Serialize;

use super::fail_over_report::FailOverReport;
use super::report::FailureReport;
use crate::live::result;
use crate::live::simulated::ALL_SEEDS;

/// Results of all deployments.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FailureResults {
    /// Result of one Redis; none if it was not measured.
    #[serde(flatten)]
    pub single: Option<FailureReport>,
    /// Results of a cluster and of Sentinels.
    pub fail_overs: Vec<FailOverReport>,
}

impl FailureResults {
    /// Returns true if no bound is broken.
    #[must_use]
    pub fn are_kept(&self) -> bool {
        let single = self.single.iter().map(|report| &report.run.broken);
        single.chain(self.fail_overs.iter().map(|report| &report.run.broken)).all(Vec::is_empty)
    }

    /// Returns the results as JSON, with the version and the seeds of the simulation.
    #[must_use]
    pub fn json(&self) -> String {
        result::json("live-failure", &ALL_SEEDS, self)
    }
}

impl fmt::Display for FailureResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let single = self.single.iter().map(ToString::to_string);
        let texts: Vec<String> = single.chain(self.fail_overs.iter().map(ToString::to_string)).collect();
        f.write_str(&texts.join("\n\n"))
    }
}
