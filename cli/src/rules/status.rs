//! `tollgate rules status`: the generation that each agent enforces, by the heartbeats of the agents.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format, table};
use tollgate_core::messages::agent_rules::AgentRules;
use tollgate_core::messages::presence::{GAP_MS_MAX, Presence};
use tollgate_core::rules::Generation;

use super::published::PublishedArgs;

/// Shows which agents enforce the newest published rules, and why the others do not
///
/// Listens to the heartbeats of the agents on Kafka for three seconds. Exit code: 0 all agents enforce the newest rules,
/// 1 some do not.
#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    place: PublishedArgs,
    /// Format of the output
    #[arg(long, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<Exit> {
    let mut rules = args.place.open_kafka()?;
    let newest = rules.publications().last().map(|kept| kept.generation);
    let agents = rules.heard_agents(Duration::from_millis(GAP_MS_MAX));
    let states: Vec<(&Presence, AgentRules<'_>)> =
        agents.values().map(|presence| (presence, rules_of(presence, newest))).collect();
    let rows = states.iter().map(|(presence, rules)| {
        [presence.id.to_string(), presence.region.to_string(), presence.generation.to_string(), state_text(*rules)]
    });
    let newest_text = newest.map_or("none".to_owned(), |newest| newest.to_string());
    let text = if states.is_empty() {
        format!("Newest generation: {newest_text}. No agent was heard.")
    } else {
        format!("Newest generation: {newest_text}\n\n{}", table(&["AGENT", "REGION", "GENERATION", "STATE"], rows))
    };
    let json: Vec<Value> = states.iter().map(|(presence, rules)| agent_json(presence, *rules)).collect();
    output::say_as(args.format, text, json!({ "newest": newest, "agents": json }))?;
    let some_lag = states.iter().any(|(_, rules)| rules.lag());
    Ok(if some_lag { Exit::Failed } else { Exit::Done })
}

fn rules_of(presence: &Presence, newest: Option<Generation>) -> AgentRules<'_> {
    AgentRules::of(presence.generation, presence.rules_published, &presence.rules_refusal, newest)
}

fn state_text(rules: AgentRules<'_>) -> String {
    match rules {
        AgentRules::Refused(reason) => format!("refused: {reason}"),
        AgentRules::Own => "rules of its own".to_owned(),
        AgentRules::Ahead => "ahead: publish again, which continues above it".to_owned(),
        rules => rules.as_str().to_owned(),
    }
}

fn agent_json(presence: &Presence, rules: AgentRules<'_>) -> Value {
    json!({
        "agent": *presence.id,
        "region": *presence.region,
        "generation": presence.generation,
        "state": rules.as_str(),
        "refusal": rules.refusal(),
    })
}
