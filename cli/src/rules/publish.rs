//! `tollgate rules publish`: one rules file for the whole fleet.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::time::timeout;
use tollgate::read_rules;
use tollgate::store::{RedisStore, Store};
use tollgate_common::bus::kafka::Kafka;
use tollgate_common::bus::{Bus, Log, Topic};
use tollgate_common::clock::{Clock, SystemClock};
use tollgate_common::rule::{Generation, Published};
use tollgate_common::wire::Record;

use crate::exit::{Exit, Usage};
use crate::output;
use crate::servers::{KafkaArgs, RedisArgs};

const KAFKA_WAIT: Duration = Duration::from_secs(10);
const REDIS_WAIT: Duration = Duration::from_secs(3);

/// Publishes a rules file to all agents that follow
///
/// With --kafka it goes on the topic `rules`, and --redis, too, gives a copy to agents that start while Kafka is away. A fleet
/// without Kafka gets its rules by --redis alone.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The rules, as YAML
    file: PathBuf,
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    redis: RedisArgs,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let set = read_rules(&args.file, clock.now())?;
    for warning in &set.warnings {
        eprintln!("warning: {warning}");
    }
    let published = published(&args.file)?;
    let redis = args.redis.settings();
    if !args.kafka.is_named() && redis.is_none() {
        bail!(Usage("name where to publish: --kafka BROKERS, or --redis URL in a fleet without Kafka".to_owned()));
    }
    let mut generation = None;
    if args.kafka.is_named() {
        generation = Some(to_kafka(&args.kafka.require()?, &published)?);
    }
    if let Some(settings) = redis {
        let store = RedisStore::new(&settings, clock)?;
        let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
        let there = runtime.block_on(to_redis(&store, generation, &published))?;
        match generation {
            Some(published) if there > published => bail!(
                "{} holds rules of generation {there}, newer than {published} on the topic: they were published to Redis alone, or the topic was made anew; delete the key of the rules in Redis and publish again",
                store.address()
            ),
            _ => generation = Some(there),
        }
    }
    let generation = generation.unwrap_or_default();
    output::say(format_args!("{}: published as generation {generation}", args.file.display()))?;
    Ok(Exit::Done)
}

fn published(file: &Path) -> anyhow::Result<Published> {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
    Ok(Published { name, text: std::fs::read_to_string(file)? })
}

fn to_kafka(kafka: &Kafka, published: &Published) -> anyhow::Result<Generation> {
    let mut log = kafka.log(Topic::Rules);
    log.append(0, published.clone().encode(), 0)?;
    log.flush(KAFKA_WAIT);
    let offset = log.reports().into_iter().find_map(|report| report.offset);
    offset.ok_or_else(|| {
        anyhow!("Kafka did not take the rules within {} s; those in force stay in force", KAFKA_WAIT.as_secs())
    })
}

async fn to_redis(
    store: &RedisStore,
    generation: Option<Generation>,
    published: &Published,
) -> anyhow::Result<Generation> {
    let work = async {
        store.ping().await?;
        store.publish_rules(generation, published).await
    };
    let there = timeout(REDIS_WAIT, work).await.unwrap_or(Err(tollgate::store::StoreError::TimedOut));
    there.with_context(|| format!("{} did not take the rules", store.address()))
}
