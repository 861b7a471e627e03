//! `tollgate rules status`: the generation that each agent enforces, by the heartbeats of the agents.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_bus::{Bus, LogReader, ReadFrom, Topic};
use tollgate_command::exit::Exit;
use tollgate_command::output::{self, Format, table};
use tollgate_core::clock::Stopwatch;
use tollgate_core::messages::presence::{GAP_MS_MAX, Presence, Role};
use tollgate_core::rules::Generation;
use tollgate_wire::Record;

use super::published::{KafkaRules, PublishedArgs};

const POLL_WAIT: Duration = Duration::from_millis(200);
const RECORDS_MAX: usize = 10_000;

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

/// Rules of one agent, compared with the newest published ones.
enum AgentRules {
    Newest,
    Behind,
    /// The agent refused newer rules, for this reason.
    Refused(Arc<str>),
    /// Rules that are not published, such as those of a file.
    Own,
}

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<Exit> {
    let rules = args.place.open_kafka()?;
    let newest = rules.publications().last().map(|kept| kept.generation);
    let agents = heard_agents(&rules);
    let states: Vec<_> =
        agents.iter().map(|(agent, presence)| (agent, presence, AgentRules::of(presence, newest))).collect();
    let rows = states.iter().map(|(agent, presence, state)| {
        [agent.to_string(), presence.region.to_string(), presence.generation.to_string(), state.text()]
    });
    let newest_text = newest.map_or("none".to_owned(), |newest| newest.to_string());
    let text = if states.is_empty() {
        format!("Newest generation: {newest_text}. No agent was heard.")
    } else {
        format!("Newest generation: {newest_text}\n\n{}", table(&["AGENT", "REGION", "GENERATION", "STATE"], rows))
    };
    let json: Vec<Value> = states.iter().map(|(_, presence, state)| state.json(presence)).collect();
    output::say_as(args.format, text, json!({ "newest": newest, "agents": json }))?;
    let lags = |state: &AgentRules| matches!(state, AgentRules::Behind | AgentRules::Refused(_));
    let some_lag = states.iter().any(|(.., state)| lags(state));
    Ok(if some_lag { Exit::Failed } else { Exit::Done })
}

/// Returns the newest heartbeat of each agent that is heard for as long as a live one is silent at most.
fn heard_agents(rules: &KafkaRules) -> BTreeMap<Arc<str>, Presence> {
    let mut reader = rules.bus().reader(Topic::Presence, &[0], ReadFrom::Next);
    let (mut agents, listened) = (BTreeMap::new(), Stopwatch::start());
    while listened.elapsed() < Duration::from_millis(GAP_MS_MAX) {
        for record in reader.poll(POLL_WAIT, RECORDS_MAX) {
            let Ok(presence) = Presence::decode(&record.payload) else { continue };
            if presence.leaving {
                agents.remove(&presence.id);
            } else if presence.role == Role::Agent {
                agents.insert(presence.id.clone(), presence);
            }
        }
    }
    agents
}

impl AgentRules {
    fn of(presence: &Presence, newest: Option<Generation>) -> Self {
        let newest = newest.unwrap_or_default();
        if !presence.rules_refusal.is_empty() {
            return Self::Refused(presence.rules_refusal.clone());
        }
        match presence.generation.cmp(&newest) {
            std::cmp::Ordering::Less => Self::Behind,
            std::cmp::Ordering::Equal => Self::Newest,
            std::cmp::Ordering::Greater => Self::Own,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Newest => "newest".to_owned(),
            Self::Behind => "behind".to_owned(),
            Self::Refused(reason) => format!("refused: {reason}"),
            Self::Own => "rules of its own".to_owned(),
        }
    }

    fn json(&self, presence: &Presence) -> Value {
        let (state, refusal) = match self {
            Self::Newest => ("newest", None),
            Self::Behind => ("behind", None),
            Self::Refused(reason) => ("refused", Some(&**reason)),
            Self::Own => ("own", None),
        };
        json!({
            "agent": *presence.id,
            "region": *presence.region,
            "generation": presence.generation,
            "state": state,
            "refusal": refusal,
        })
    }
}
