//! Log lines of answers, and their events for the decision log.
//!
//! Level debug has one line per minute and rule; level trace has one for each answer, with the trace of its request. At other
//! levels, an answer costs a look at the level, and no header is read.

use http::{HeaderMap, StatusCode};
use tollgate_core::call::Call;
use tollgate_core::decision::Decision;
use tracing::Level;

use super::answer_counts::CountedAnswers;
use super::shared::Agent;
use crate::request::trace_parent;
use crate::store::ChargeStore;

/// Target of the lines, for filters.
const TARGET: &str = "tollgate::answers";

impl<S: ChargeStore> Agent<S> {
    /// Logs the answer of this status to a request with these headers, at levels debug and trace and in the decision log.
    #[doc(hidden)]
    pub fn log_answer(&self, call: &Call<'_>, decision: &Decision, status: StatusCode, headers: &HeaderMap) {
        if let Some(sink) = &self.shared.decision_sink {
            self.note_decision(sink, call, decision, headers);
        }
        if tracing::enabled!(target: TARGET, Level::DEBUG) {
            for (rule, CountedAnswers { allowed, denied }) in self.shared.answer_counts.count(decision) {
                let (node, rule) = (self.node(), rule.as_deref().unwrap_or("none"));
                tracing::debug!(target: TARGET, node, rule, allowed, denied, "answers of a minute");
            }
        }
        if tracing::enabled!(target: TARGET, Level::TRACE) {
            tracing::trace!(
                target: TARGET,
                node = self.node(),
                id = self.decision_id(call, decision),
                allowed = decision.allowed,
                status = status.as_u16(),
                rule = decision.status.as_ref().map(|status| &*status.rule),
                source = decision.source.as_str(),
                traceparent = trace_parent(headers),
                "answered"
            );
        }
    }
}
