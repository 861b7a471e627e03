//! Envoy's rate limit API (`envoy.service.ratelimit.v3`) without its encoding. `POST /json` and gRPC share it.
//!
//! Each descriptor of a request is a call, with its entries and `domain`. [`Agent::decide_all`] decides all of them as one request.
//! The rules of `--envoy-config` and `rules import` have `exact_match`: only one whose `match` names exactly the entries of a
//! descriptor in their order applies to it. A descriptor with negative hits is no call: its hits are given back, once the others
//! are decided. If the store does not confirm it, its status has no limit. A limit of the request is a descriptor `limit` of the
//! call, from which a rule may take its quota.

mod status;

use std::sync::Arc;

use http::HeaderMap;
use tollgate_core::call::{COST_MAX, Call, DESCRIPTORS_LEN_MAX, truncated};
use tollgate_core::counter::StoreError;
use tollgate_core::decision::{Decision, LimitStatus};
use tollgate_core::rules::{ApplicableRule, MatchScope, Origin};
use tollgate_rules::import::envoy_names;

pub use status::{CurrentLimit, DescriptorStatus, LimitUnit};

use crate::agent::Agent;
use crate::http_response::{may_pass_later, status_code};
use crate::request::set_trace;
use crate::store::ChargeStore;

/// Maximum number of descriptors in a request.
pub const CALLS_LEN_MAX: usize = 64;
/// Descriptor that holds a request's domain.
const DOMAIN: &str = "domain";
/// Descriptor that holds the limit that a request brings.
const LIMIT: &str = "limit";

/// One descriptor of a request.
pub struct RateLimitDescriptor<E> {
    /// Keys and values.
    pub entries: E,
    /// Hits of this descriptor in place of those of the request.
    pub hits: Option<u64>,
    /// True if the hits are to be given back.
    pub is_negative_hits: bool,
    /// Limit that the request brings: requests, and their unit.
    pub limit: Option<(u32, LimitUnit)>,
}

/// Calls of a request.
pub struct RateLimitCalls<'r> {
    /// Calls of the descriptors with positive hits.
    calls: Vec<Call<'r>>,
    /// Calls of the descriptors with negative hits, and their places among all descriptors.
    refunds: Vec<(usize, Call<'r>)>,
    /// Calls that bring a limit.
    limited: Vec<LimitedCall>,
}

/// Place of a call that brings a limit, and the unit of the limit.
struct LimitedCall {
    /// Place among all descriptors.
    descriptor: usize,
    /// Place among the calls.
    call: usize,
    unit: LimitUnit,
}

/// Answer to a request.
pub struct RateLimitAnswer {
    decisions: Vec<Decision>,
    /// Places of the refunded descriptors, and the limits after their refunds.
    refunded: Vec<(usize, Option<LimitStatus>)>,
}

/// Reason for which a request has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RateLimitError {
    /// The rules do not allow the request, or it lacks a part.
    #[error("the request is not valid: {0}")]
    Invalid(String),
    /// The store did not confirm a refund, of a request that has nothing else.
    #[error(
        "the store did not confirm that units were given back: {0}; ask with 0 hits before a retry, which may give back more"
    )]
    NotRefunded(#[from] StoreError),
}

impl<'r> RateLimitCalls<'r> {
    /// Reads a request. `hits` counts for descriptors without hits of their own; 0 is 1.
    ///
    /// # Errors
    /// The reason and the remedy, if the request lacks a part, or has too many.
    pub fn new<E: ExactSizeIterator<Item = (&'r str, &'r str)> + Clone>(
        domain: &'r str,
        hits: u64,
        descriptors: impl ExactSizeIterator<Item = RateLimitDescriptor<E>>,
    ) -> Result<Self, RateLimitError> {
        if domain.is_empty() {
            return Err(RateLimitError::Invalid("the `domain` is missing".to_owned()));
        }
        if descriptors.len() == 0 || descriptors.len() > CALLS_LEN_MAX {
            let why = format!("it has {} descriptors; it must have 1 to {CALLS_LEN_MAX}", descriptors.len());
            return Err(RateLimitError::Invalid(why));
        }
        let mut request =
            Self { calls: Vec::with_capacity(descriptors.len()), refunds: Vec::new(), limited: Vec::new() };
        for (place, descriptor) in descriptors.enumerate() {
            let call = descriptor.call(domain, hits.max(1)).map_err(|why| of_descriptor(place, &why))?;
            if descriptor.is_negative_hits {
                request.refunds.push((place, call));
                continue;
            }
            if let Some((_, unit)) = descriptor.limit {
                request.limited.push(LimitedCall { descriptor: place, call: request.calls.len(), unit });
            }
            request.calls.push(call);
        }
        Ok(request)
    }

    /// Takes over the trace of the request that has these headers.
    #[must_use]
    pub fn traced(mut self, headers: &HeaderMap) -> Self {
        set_trace(headers, &mut self.calls);
        self
    }

    /// Decides the request, and logs each answer with the trace in these headers.
    ///
    /// # Errors
    /// The reason and the remedy, if a rule does not give back units or takes no limit of a request, or the store
    /// does not confirm the refunds of a request that has nothing else.
    pub async fn decide<S: ChargeStore>(
        &self,
        agent: &Agent<S>,
        headers: &HeaderMap,
    ) -> Result<RateLimitAnswer, RateLimitError> {
        let mut scope = MatchScope { ordered_entries: true, ..MatchScope::default() };
        let replaced = if self.refunds.is_empty() { Vec::new() } else { self.replaced(agent, scope) };
        scope.excluded = &replaced;
        if !self.refunds.is_empty() || !self.limited.is_empty() {
            self.check_rules(agent, scope)?;
        }
        let decisions = if self.calls.is_empty() { Vec::new() } else { agent.decide_all(&self.calls, scope).await };
        for (call, decision) in self.calls.iter().zip(&decisions) {
            agent.log_answer(call, decision, status_code(decision), headers);
        }
        let (mut refunded, mut failed) = (Vec::with_capacity(self.refunds.len()), None);
        for (place, call) in &self.refunds {
            // A store that does not answer is asked once.
            let limit = match failed {
                None => agent.refund(call, scope).await.unwrap_or_else(|error| {
                    failed = Some(error);
                    None
                }),
                Some(_) => None,
            };
            refunded.push((*place, limit));
        }
        match failed {
            // The decisions on the other descriptors hold.
            Some(error) if decisions.is_empty() => Err(error.into()),
            _ => Ok(RateLimitAnswer { decisions, refunded }),
        }
    }

    /// Returns the names of the rules that a rule of any descriptor replaces.
    fn replaced<S: ChargeStore>(&self, agent: &Agent<S>, scope: MatchScope<'_>) -> Vec<Arc<str>> {
        let calls = || self.calls.iter().chain(self.refunds.iter().map(|(_, call)| call));
        agent.engine().with_rules(|rules| {
            let mut replaced = Vec::new();
            for resolved in calls().map(|call| rules.resolved_within(call, scope)) {
                let applicable = rules.applicable(&resolved);
                replaced.extend(applicable.iter().flat_map(|applicable| applicable.replaced(&resolved)).cloned());
            }
            replaced
        })
    }

    /// Refuses what the rules do not allow every gateway.
    fn check_rules<S: ChargeStore>(&self, agent: &Agent<S>, scope: MatchScope<'_>) -> Result<(), RateLimitError> {
        agent.engine().with_rules(|rules| {
            for (place, call) in &self.refunds {
                let applicable = rules.applicable(&rules.resolved_within(call, scope));
                let keeps = |applicable: &&ApplicableRule<'_>| applicable.policy.is_some() && !applicable.rule.refunds;
                if let Some(kept) = applicable.iter().find(keeps) {
                    let rule = &kept.rule.name;
                    let why = format!(
                        "rule `{rule}` gives back no units without the `id` of a call; write `refunds: true` in it, or refund with `POST /settle`"
                    );
                    return Err(of_descriptor(*place, &why));
                }
            }
            for limited in &self.limited {
                let applicable = rules.applicable(&rules.resolved_within(&self.calls[limited.call], scope));
                let takes = |applicable: &&ApplicableRule<'_>| {
                    matches!(applicable.origin, Origin::Descriptor(name) if name == LIMIT)
                };
                let Some(taking) = applicable.iter().find(takes) else {
                    let why = "it brings a `limit`, and no rule takes one for it; write `quota: { from: limit, default: 100/min }` in the rule, or the limit into the rules";
                    return Err(of_descriptor(limited.descriptor, why));
                };
                // Another window would drop the units that are counted.
                let width_ms = taking.rule.policy.map(|policy| policy.window.width_ms());
                if limited.unit.width_ms() != width_ms {
                    let why = format!(
                        "it brings a `limit` per {}, and rule `{}` counts in another unit; bring a limit in the unit of the rule's `default`",
                        limited.unit.as_str(),
                        taking.rule.name
                    );
                    return Err(of_descriptor(limited.descriptor, &why));
                }
            }
            Ok(())
        })
    }
}

impl RateLimitAnswer {
    /// Returns true if the request may pass.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.decisions.iter().all(|decision| decision.allowed)
    }

    /// Returns the decision that stands for the whole request: the denial that no retry changes, or else the one with the longest wait,
    /// or else the first decision. None if all descriptors were refunded.
    #[must_use]
    pub fn deciding(&self) -> Option<&Decision> {
        let wait = |decision: &&Decision| {
            let retry_after_ms = decision.status.as_ref().map(|status| status.retry_after_ms);
            (!may_pass_later(decision), retry_after_ms)
        };
        // `max_by_key` returns the last of equals; the first in the order of the request is meant.
        let denied = self.decisions.iter().rev().filter(|decision| !decision.allowed);
        denied.max_by_key(wait).or(self.decisions.first())
    }

    /// Returns the decisions on the descriptors that were not refunded.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the status of each descriptor, in the order of the request.
    #[must_use]
    pub fn statuses(&self) -> Vec<DescriptorStatus<'_>> {
        let mut statuses: Vec<_> = self.decisions.iter().map(DescriptorStatus::of).collect();
        for (place, limit) in &self.refunded {
            let limit = limit.as_ref().map(CurrentLimit::of);
            statuses.insert(*place, DescriptorStatus { is_over_limit: false, limit });
        }
        statuses
    }
}

fn of_descriptor(place: usize, why: &str) -> RateLimitError {
    RateLimitError::Invalid(format!("descriptor {}: {why}", place + 1))
}

impl<'r, E: ExactSizeIterator<Item = (&'r str, &'r str)> + Clone> RateLimitDescriptor<E> {
    fn call(&self, domain: &'r str, hits: u64) -> Result<Call<'r>, String> {
        if self.entries.len() == 0 || self.entries.len() >= DESCRIPTORS_LEN_MAX {
            let most = DESCRIPTORS_LEN_MAX - 1;
            return Err(format!("it has {} entries; it must have 1 to {most}", self.entries.len()));
        }
        let hits = self.hits.unwrap_or(hits);
        if hits > COST_MAX {
            return Err(format!("it has {hits} hits; it may have 0 to {COST_MAX}"));
        }
        let mut call = Call::new().costing(hits);
        let refused = |error: tollgate_core::call::DescriptorError| error.to_string();
        call.add(DOMAIN.into(), domain.into()).map_err(refused)?;
        let names = envoy_names(self.entries.clone().map(|(key, _)| key));
        for (name, (_, value)) in names.into_iter().zip(self.entries.clone()) {
            // Gateways copy headers of clients into values, so a long one must not keep the others from being counted.
            call.add(name, truncated(value.into())).map_err(refused)?;
        }
        if self.is_negative_hits && self.limit.is_some() {
            return Err("it has negative hits and brings a `limit`; leave one out".to_owned());
        }
        if let Some((requests, unit)) = self.limit {
            let Some(width_ms) = unit.width_ms().filter(|_| requests > 0) else {
                let unit = unit.as_str();
                return Err(format!(
                    "it brings a limit of {requests} requests per {unit}; it must have 1 request or more, and a unit from SECOND to YEAR"
                ));
            };
            call.add(LIMIT.into(), format!("{requests}/{}s", width_ms / 1_000).into()).map_err(refused)?;
        }
        Ok(call)
    }
}
