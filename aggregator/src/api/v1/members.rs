//! `/api/v1/agents`, `/partitions`, `/endpoints` and `/tiers`.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_aggregator_engine::analytics::FleetView;
use tollgate_aggregator_engine::worker::{AgentState, AssignedPartition};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::agent_rules::AgentRules;
use tollgate_core::messages::rollups::{Subject, Totals};
use tollgate_core::rules::{Generation, Numbering, RuleSet};

use super::query::{Refusal, limit, minutes};
use super::state::V1;
use super::totals::{totals, with};
use crate::api::params::Params;
use crate::api::responses::respond;
use crate::queries::AskError;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NamesQuery {
    minutes: Option<u64>,
    limit: Option<usize>,
    #[serde(default)]
    offset: usize,
}

pub(super) async fn endpoints(State(v1): State<V1>, Params(query): Params<NamesQuery>) -> Result<Response, Refusal> {
    let name = |subject: &Subject| if let Subject::Endpoint(name) = subject { Some(name.clone()) } else { None };
    v1.named("endpoint", query, name).await
}

pub(super) async fn tiers(State(v1): State<V1>, Params(query): Params<NamesQuery>) -> Result<Response, Refusal> {
    let name = |subject: &Subject| if let Subject::Tier(name) = subject { Some(name.clone()) } else { None };
    v1.named("tier", query, name).await
}

pub(super) async fn agents(State(v1): State<V1>) -> Result<Response, AskError> {
    let (now, sums) = v1.analytics.ask(|view, now| (now, view.agents(now))).await?;
    let heard = v1.queries.ask(|state| {
        let agents = state.worker.agents().iter();
        agents.map(|(name, agent)| (name.clone(), agent.clone())).collect::<BTreeMap<_, _>>()
    });
    let mut agents: BTreeMap<Arc<str>, (Option<AgentState>, Totals)> =
        heard.await?.into_iter().map(|(name, agent)| (name, (Some(agent), Totals::default()))).collect();
    for (name, totals) in sums {
        agents.entry(name).or_default().1 = totals;
    }
    let newest = v1.newest_published();
    let agents: Vec<Value> =
        agents.iter().map(|(name, (heard, sums))| agent(name, heard.as_ref(), newest, sums)).collect();
    Ok(respond(StatusCode::OK, &json!({ "now_ms": now.as_ms(), "newest_generation": newest, "agents": agents })))
}

pub(super) async fn partitions(State(v1): State<V1>) -> Result<Response, AskError> {
    let own = v1.id.clone();
    let partitions = v1.queries.ask(move |state| {
        let partition = |(partition, assigned): (Partition, &AssignedPartition)| {
            let counting = &assigned.counting;
            json!({
                "partition": partition,
                "aggregator": *own,
                "restored": counting.restored,
                "lag_records": assigned.lag_records,
                "counters": counting.tally().counters,
                "read": counting.read.map(|(offset, _)| offset),
                "appended_ms": counting.read.map(|(_, appended)| appended.as_ms()),
            })
        };
        (state.now, state.worker.assigned().map(partition).collect::<Vec<_>>())
    });
    let (now, partitions) = partitions.await?;
    Ok(respond(StatusCode::OK, &json!({ "now_ms": now.as_ms(), "partitions": partitions })))
}

impl V1 {
    /// Returns the newest published generation; none if no rules are published, or those in force are others.
    fn newest_published(&self) -> Option<Generation> {
        let published = |rules: &RuleSet| (rules.numbering == Numbering::Publication).then_some(rules.generation);
        self.analytics.rules.read(published).flatten()
    }

    async fn named(
        &self,
        kind: &'static str,
        query: NamesQuery,
        name: impl Fn(&Subject) -> Option<Arc<str>> + Send + 'static,
    ) -> Result<Response, Refusal> {
        let (minutes, limit) = (minutes(query.minutes)?, limit(query.limit)?);
        let answer = move |view: &FleetView, now: Timestamp| {
            let sums = view.sums(minutes, now, name);
            let named = |(name, sums): &(Arc<str>, Totals)| with(json!({ kind: **name }), totals(sums));
            let list: Vec<Value> = sums.iter().skip(query.offset).take(limit).map(named).collect();
            let (now_ms, matched) = (now.as_ms(), sums.len());
            Ok(json!({ "now_ms": now_ms, "matched": matched, "minutes": minutes, format!("{kind}s"): list }))
        };
        self.answer(answer).await
    }
}

fn agent(name: &str, heard: Option<&AgentState>, newest: Option<Generation>, sums: &Totals) -> Value {
    let rules =
        heard.map(|agent| AgentRules::of(agent.generation, agent.rules_published, &agent.rules_refusal, newest));
    let store = heard.map(|agent| if agent.open_breakers.is_empty() { "ok" } else { "down" });
    json!({
        "agent": name,
        "region": heard.map(|agent| &*agent.region),
        "seen_ms": heard.map(|agent| agent.seen.as_ms()),
        "generation": heard.map(|agent| agent.generation),
        "rules_state": rules.map(AgentRules::as_str),
        "rules_refusal": rules.and_then(AgentRules::refusal),
        "store": store,
        "clock_offset_ms": heard.map(|agent| agent.clock_offset_ms),
        "dropped_rows": heard.map(|agent| agent.dropped_rows),
        "emergency": heard.and_then(|agent| agent.emergency).map(|quota| quota.to_string()),
        "last_minute": totals(sums),
    })
}
