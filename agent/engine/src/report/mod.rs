//! Reports of an agent: its metrics, its notices for the log, and the decisions that are sampled.

mod stripes;
mod metrics;
mod notice;
mod decision_sampler;
mod reports;
mod call_ids;

pub(crate) use call_ids::CallIds;
pub use decision_sampler::{ADMISSIONS_ALL, DecisionSampler, DecisionSampling, SampledDenials};
pub use metrics::{
    Amount, EngineMetrics, LateOutcome, OTHER_RULES, RULE_COUNTS_LEN_MAX, RuleCounts, StripedTotal, Total,
};
pub use notice::Notice;
pub(crate) use reports::Reports;
pub(crate) use stripes::Stripes;
pub use stripes::{STRIPES, use_stripe};
