//! Decision log of an agent: events of denials and of a sample of admissions, for a sink that another thread empties.
//!
//! Without a sink, an answer costs a look at an option. [`DecisionSampler`](tollgate_engine::DecisionSampler) chooses the decisions.

use http::HeaderMap;
use tollgate_core::call::Call;
use tollgate_core::decision::{Decision, LimitKind, LimitStatus};
use tollgate_core::messages::calls::DenialCause;
use tollgate_core::messages::decisions::{DecisionEvent, DecisionLimit};
use tollgate_core::rules::{RuleSet, TIER};

use super::decision_sink::DecisionSink;
use super::shared::Agent;
use crate::request::trace_parent;
use crate::store::ChargeStore;

impl<S: ChargeStore> Agent<S> {
    /// Passes a decision to the sink if it is chosen.
    pub(super) fn note_decision(&self, sink: &DecisionSink, call: &Call<'_>, decision: &Decision, headers: &HeaderMap) {
        let now = self.shared.clock.now();
        let is_denial = !decision.allowed || decision.is_shadow_denied;
        let rule = decision.status.as_ref().map_or("", |status| &*status.rule);
        let is_taken = if is_denial {
            sink.sampler.takes_denial(now, rule, || self.caller(rule, call).unwrap_or_else(|| joined(call)))
        } else {
            sink.sampler.takes_admission(now, decision.id.call)
        };
        if is_taken {
            let one_of = if is_denial { 1.0 } else { sink.sampler.one_of() };
            if !(sink.deliver)(self.event(call, decision, headers, one_of)) {
                sink.sampler.skip();
            }
        }
    }

    fn event(&self, call: &Call<'_>, decision: &Decision, headers: &HeaderMap, one_of: f64) -> DecisionEvent {
        let settings = self.shared.engine.settings();
        let limit = decision.status.as_ref().map(|status| DecisionLimit {
            rule: status.rule.to_string(),
            caller: self.caller(&status.rule, call),
            quota: status.limit,
            window_ms: status.window_ms,
            remaining: has_count(status).then_some(status.remaining),
            retry_after_ms: status.retry_after_ms,
        });
        let descriptors = self.shared.engine.with_rules(|set| {
            let shown =
                |(name, value): (&str, &str)| (name.to_owned(), settings.digest_key.shown(value, set.is_secret(name)));
            let mut descriptors: Vec<_> = call.descriptors().map(shown).collect();
            let tier = set.resolved(call).get(TIER).filter(|_| call.get(TIER).is_none()).map(str::to_owned);
            descriptors.extend(tier.map(|tier| (TIER.to_owned(), tier)));
            descriptors
        });
        DecisionEvent {
            at: decision.at,
            agent: settings.node.clone(),
            region: settings.region.clone(),
            id: self.decision_id(call, decision),
            allowed: decision.allowed,
            cause: DenialCause::of(decision),
            shadow_denied: decision.is_shadow_denied,
            source: decision.source,
            by: decision.by,
            cost: call.cost(),
            limit,
            descriptors,
            trace: trace_parent(headers).map(str::to_owned),
            one_of,
        }
    }

    /// Returns the label of the caller under a rule; none if there is no such rule, as for lists.
    fn caller(&self, rule: &str, call: &Call<'_>) -> Option<String> {
        let key = &self.shared.engine.settings().digest_key;
        let label = |set: &RuleSet| {
            let rule = set.rules.iter().find(|known| &*known.name == rule)?;
            Some(set.label(rule, call, key))
        };
        self.shared.engine.with_rules(label)
    }
}

/// Returns the descriptors of a call as one text, which names a caller that no rule labels.
fn joined(call: &Call<'_>) -> String {
    call.descriptors().flat_map(|(name, value)| [name, "=", value, "\n"]).collect()
}

fn has_count(status: &LimitStatus) -> bool {
    !status.hides_remaining && !matches!(status.kind, LimitKind::Denial(_))
}
