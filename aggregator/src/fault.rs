//! State of a part that a server needs, such as its bus: the reason for which it cannot be used, and since when.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tollgate_core::clock::Timestamp;

/// Reason for which a part cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The newest reason.
    pub(crate) why: String,
    /// Time from which on the part could not be used, for this reason or another one.
    pub(crate) since: Timestamp,
}

/// State of a part; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultState(Arc<Mutex<Option<Fault>>>);

impl FaultState {
    /// Notes the state: none if the part can be used, else the reason. Returns true if it could not be used before.
    pub(crate) fn note(&self, now: Timestamp, why: Option<String>) -> bool {
        let mut state = self.0.lock();
        let since = state.as_ref().map(|problem| problem.since);
        *state = why.map(|why| Fault { why, since: since.unwrap_or(now) });
        since.is_some()
    }

    pub(crate) fn fault(&self) -> Option<Fault> {
        self.0.lock().clone()
    }
}

/// Returns the problems of parts as JSON, those that have none left out.
pub(crate) fn problems<const N: usize>(parts: [(&str, Option<Fault>); N]) -> Vec<Value> {
    let problem = |(part, problem): (&str, Option<Fault>)| {
        let Fault { why, since } = problem?;
        Some(json!({ "part": part, "why": why, "since_ms": since.as_ms() }))
    };
    parts.into_iter().filter_map(problem).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_begins_with_its_first_reason() {
        let state = FaultState::default();
        let at = Timestamp::from_ms;
        assert!(!state.note(at(1), Some("a broker is missing".into())));
        assert!(state.note(at(2), Some("a topic is missing".into())));
        assert_eq!(state.fault(), Some(Fault { why: "a topic is missing".into(), since: at(1) }));
        assert!(state.note(at(3), None) && state.fault().is_none());
        assert!(!state.note(at(4), Some("a broker is missing".into())));
        assert_eq!(state.fault().map(|problem| problem.since), Some(at(4)));
    }
}
