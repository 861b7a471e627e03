//! `tollgate rules publish`: publishes a rules file to Kafka, to Redis, or to both.
//!
//! The generation is the offset on `rules`, or counts from 1 in a fleet that publishes to Redis alone. Before such a fleet
//! moves to Kafka, the key of the rules in Redis is deleted: its generations may be higher, and the error says so.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::time::timeout;
use tollgate::{RulesFileError, read_text};
use tollgate_bus::kafka::KafkaBus;
use tollgate_bus::{Bus, LogWriter, Topic};
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output;
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_command::threads;
use tollgate_core::clock::{Clock, SystemClock};
use tollgate_core::counter::StoreError;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
use tollgate_redis::RuleMirror;
use tollgate_rules::FILE_LEN_MAX;
use tollgate_wire::Record;

/// Time that Kafka has to acknowledge.
const KAFKA_WAIT: Duration = Duration::from_secs(10);
const REDIS_WAIT: Duration = Duration::from_secs(3);

/// Publishes a rules file to all agents that follow the published rules
///
/// With --kafka the file goes to the topic `rules`; --redis beside it keeps a copy for agents that start while Kafka is
/// unavailable. A fleet without Kafka uses --redis alone.
#[derive(clap::Args)]
pub(crate) struct PublishArgs {
    /// The rules, as YAML
    file: PathBuf,
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    redis: RedisArgs,
}

pub(crate) fn run(args: &PublishArgs) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    // The file may be a pipe, which is read once.
    let text = read_text(&args.file, FILE_LEN_MAX).map_err(RulesFileError::from)?;
    let set = tollgate_rules::from_yaml(&args.file.display().to_string(), &text, clock.now().as_ms())?;
    for warning in &set.warnings {
        output::note(format_args!("warning: {warning}"));
    }
    let name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned();
    let published = Published { name, text };
    // An address that nobody can use is refused before anything is published.
    let mirror = args.redis.settings().map(|settings| RuleMirror::new(&settings, clock)).transpose()?;
    let kafka = args.kafka.require()?;
    if kafka.is_none() && mirror.is_none() {
        bail!(Usage("name where to publish: --kafka BROKERS, or --redis URL in a fleet without Kafka".to_owned()));
    }
    let mut generation = kafka.map(|kafka| to_kafka(&kafka, &published)).transpose()?;
    if let Some(mirror) = mirror {
        generation = Some(threads::block_on(to_redis(&mirror, generation, &published))?);
    }
    let generation = generation.unwrap_or_default();
    output::say(format_args!("{}: published as generation {generation}", args.file.display()))?;
    Ok(Exit::Done)
}

fn to_kafka(kafka: &KafkaBus, published: &Published) -> anyhow::Result<Generation> {
    let mut log = kafka.writer(Topic::Rules);
    log.append(0, published.encode(), 0)?;
    log.flush(KAFKA_WAIT);
    let offset = log.reports().into_iter().find_map(|report| report.offset);
    offset.ok_or_else(|| {
        anyhow!("Kafka did not take the rules within {} s; those in force stay in force", KAFKA_WAIT.as_secs())
    })
}

/// Copies rules that are on Kafka under this generation, or publishes rules that are not on Kafka.
async fn to_redis(
    mirror: &RuleMirror,
    on_kafka: Option<Generation>,
    published: &Published,
) -> anyhow::Result<Generation> {
    let (name, address) = (&published.name, mirror.address());
    let stored = timeout(REDIS_WAIT, mirror.publish(on_kafka, published)).await;
    match (stored.unwrap_or(Err(StoreError::TimedOut)), on_kafka) {
        (Ok(stored), Some(generation)) if stored > generation => bail!(
            "{name} is published as generation {generation} on Kafka, but {address} holds rules of generation {stored}, which agents that start while Kafka is away would take: they were published to Redis alone, or the topic was made anew; delete the key of the rules in Redis, and aggregators with --redis copy the rules there, or publish again"
        ),
        (Ok(stored), _) => Ok(stored),
        (Err(error), Some(generation)) => bail!(
            "{name} is published as generation {generation} on Kafka, where agents find it, but {address} did not take the copy: {error}; aggregators with --redis copy it there by themselves as soon as Redis answers; without them publish again then"
        ),
        (Err(error), None) => Err(error).with_context(|| format!("{address} did not take the rules")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Agents take the rules from Kafka, so the message about a failed copy must report their generation.
    #[tokio::test]
    async fn a_copy_that_fails_does_not_hide_that_the_rules_are_published() {
        let mirror = RuleMirror::new(&"redis://127.0.0.1:1".into(), Arc::new(SystemClock::start())).unwrap();
        let published = Published { name: "rules.yaml".into(), text: "rules: []".into() };
        let told = format!("{:#}", to_redis(&mirror, Some(7), &published).await.unwrap_err());
        assert!(told.starts_with("rules.yaml is published as generation 7 on Kafka"), "{told}");
        assert!(told.contains("redis://127.0.0.1:1 did not take the copy: "), "{told}");
        assert!(told.contains("aggregators with --redis copy it there by themselves"), "{told}");
        let told = format!("{:#}", to_redis(&mirror, None, &published).await.unwrap_err());
        assert!(told.contains("did not take the rules") && !told.contains("is published"), "{told}");
    }
}
