//! Places where rules are published: Kafka with a copy in Redis, or Redis alone.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tollgate_command::exit::Usage;
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_core::clock::Clock;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;
use tollgate_redis::{MirrorOutcome, RuleMirror};

use super::kafka_log::{KafkaRules, RulesAccess};
use super::publication::{KeptPublication, utc};

const REDIS_WAIT: Duration = Duration::from_secs(3);

/// Servers that hold the published rules.
#[derive(clap::Args)]
pub(in super::super) struct PublishedArgs {
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    redis: RedisArgs,
}

/// The published rules in their place, as they were when it was opened.
pub(in super::super) struct PublishedRules {
    kafka: Option<KafkaRules>,
    mirror: Option<RuleMirror>,
    /// Threads of the connection to Redis.
    runtime: Runtime,
    /// Publications from the oldest on.
    kept: Vec<KeptPublication>,
}

impl PublishedArgs {
    /// Reads the published rules: from Kafka, or from Redis if Kafka is not given or has none. With `writes`, the rights to
    /// publish are checked, too.
    pub(in super::super) fn open(&self, clock: Arc<dyn Clock>, writes: bool) -> anyhow::Result<PublishedRules> {
        // An address that nobody can use is refused before anything is published.
        let mirror = self.redis.settings().map(|settings| RuleMirror::new(&settings, clock)).transpose()?;
        let kafka = self.kafka.settings();
        let access = if writes { RulesAccess::Publishes } else { RulesAccess::Reads };
        let kafka = kafka.map(|kafka| KafkaRules::open(kafka, access, |bus| self.kafka.prepare(bus))).transpose()?;
        let runtime = Runtime::new().context("cannot start threads")?;
        let kept: Vec<_> = kafka.iter().flat_map(KafkaRules::publications).cloned().collect();
        let kept = match &mirror {
            // Without Kafka; or the topic is new: the fleet had Redis alone, or Kafka has lost it. Agents enforce what Redis holds.
            Some(mirror) if kept.is_empty() => runtime.block_on(from_redis(mirror))?,
            None if kafka.is_none() => {
                let text =
                    "name where the rules are published: --kafka BROKERS, or --redis URL in a fleet without Kafka";
                bail!(Usage(text.to_owned()))
            }
            _ => kept,
        };
        Ok(PublishedRules { kafka, mirror, runtime, kept })
    }

    /// Reads the published rules from Kafka, which must be named: agents report the rules that they enforce there.
    pub(in super::super) fn open_kafka(&self) -> anyhow::Result<KafkaRules> {
        let text = "agents report their rules on Kafka: name it with --kafka BROKERS; in a fleet without Kafka, `generation` and `rules_error` of each agent's /healthz tell them";
        match self.kafka.settings() {
            Some(settings) => KafkaRules::open(settings, RulesAccess::Hears, |bus| self.kafka.prepare(bus)),
            None => bail!(Usage(text.to_owned())),
        }
    }
}

impl PublishedRules {
    /// Returns the publications that are kept, from the oldest on.
    pub(in super::super) fn kept(&self) -> &[KeptPublication] {
        &self.kept
    }

    /// Returns the publication in force; none before the first one.
    pub(in super::super) fn in_force(&self) -> Option<&KeptPublication> {
        self.kept.last()
    }

    /// Returns a publication; without a generation the one in force.
    pub(in super::super) fn find(&self, generation: Option<Generation>) -> anyhow::Result<&KeptPublication> {
        let newest =
            self.in_force().context("no rules are published yet; publish some with `tollgate rules publish FILE`")?;
        let Some(generation) = generation else { return Ok(newest) };
        let found = self.kept.iter().find(|kept| kept.generation == generation);
        found.with_context(|| {
            let kept: Vec<_> = self.kept.iter().map(|kept| kept.generation.to_string()).collect();
            format!("generation {generation} is not kept, or there was none; these are: {}", kept.join(", "))
        })
    }

    /// Publishes rules in place of those in force; returns their generation. If others were published since the place was
    /// opened, nothing changes.
    pub(in super::super) fn publish(&mut self, published: Published) -> anyhow::Result<Generation> {
        if let Some(kafka) = &mut self.kafka {
            let in_redis = self.mirror.as_ref().map(|mirror| self.runtime.block_on(newest_in_redis(mirror)));
            let in_redis = match in_redis.transpose() {
                // The copy tells the fault.
                Err(_) if !kafka.is_empty() => None,
                in_redis => in_redis?.flatten(),
            };
            let generation = kafka.publish(&published, in_redis)?;
            self.kept = kafka.publications().cloned().collect();
            let Some(generation) = generation else { bail!(overtaken(self.kept.last())) };
            if let Some(mirror) = &self.mirror {
                self.runtime.block_on(copy_to_redis(mirror, generation, &published))?;
            }
            return Ok(generation);
        }
        let mirror = self.mirror.as_ref().context("there is no place for rules")?;
        let published = Published { replaces: Some(self.in_force().map_or(0, |kept| kept.generation)), ..published };
        match self.runtime.block_on(to_redis(mirror, &published))? {
            MirrorOutcome::Published(generation) => Ok(generation),
            MirrorOutcome::Overtaken(_) => {
                self.kept = self.runtime.block_on(from_redis(mirror))?;
                bail!(overtaken(self.kept.last()))
            }
            MirrorOutcome::CopiedFromKafka(generation) => bail!(
                "the rules in {} are a copy of generation {generation} on Kafka, so rules that are published to Redis alone would hide the next ones on Kafka; give --kafka BROKERS, too; if this fleet has given Kafka up, stop its aggregators and run `redis-cli HDEL {} copied` first",
                mirror.address(),
                mirror.key()
            ),
        }
    }
}

/// Returns the sentence for rules that were prepared for others than those in force.
fn overtaken(by: Option<&KeptPublication>) -> String {
    let by = by.map_or_else(String::new, |KeptPublication { generation, at, published }| {
        format!(" (generation {generation}, {}, {})", published.author, utc(*at))
    });
    format!("other rules were published in the meantime{by} and stay in force; look at them and run the command again")
}

async fn from_redis(mirror: &RuleMirror) -> anyhow::Result<Vec<KeptPublication>> {
    let history = timeout(REDIS_WAIT, mirror.history()).await.unwrap_or(Err(StoreError::TimedOut));
    let history = history.with_context(|| format!("{} did not give the published rules", mirror.address()))?;
    let kept = |(generation, at, published)| KeptPublication { generation, at, published };
    Ok(history.into_iter().map(kept).collect())
}

/// Returns the generation of the rules in Redis, if there are any.
async fn newest_in_redis(mirror: &RuleMirror) -> anyhow::Result<Option<Generation>> {
    let newest = timeout(REDIS_WAIT, mirror.newest()).await.unwrap_or(Err(StoreError::TimedOut));
    newest
        .with_context(|| format!("{} did not tell the generation of its rules; nothing is published", mirror.address()))
}

async fn to_redis(mirror: &RuleMirror, published: &Published) -> anyhow::Result<MirrorOutcome> {
    let stored = timeout(REDIS_WAIT, mirror.publish(published)).await.unwrap_or(Err(StoreError::TimedOut));
    stored.with_context(|| format!("{} did not take the rules", mirror.address()))
}

/// Copies rules that are on Kafka under this generation.
async fn copy_to_redis(mirror: &RuleMirror, generation: Generation, published: &Published) -> anyhow::Result<()> {
    let (name, address) = (&published.name, mirror.address());
    let stored = timeout(REDIS_WAIT, mirror.copy(generation, None, published)).await;
    match stored.unwrap_or(Err(StoreError::TimedOut)) {
        Ok(stored) if stored > generation => bail!(
            "{name} is published as generation {generation} on Kafka, but {address} holds rules of generation {stored}, which agents that start while Kafka is away would take: they were published to Redis alone, or the topic was made anew; delete the key of the rules in Redis, and aggregators with --redis copy the rules there, or publish again"
        ),
        Ok(_) => Ok(()),
        Err(error) => bail!(
            "{name} is published as generation {generation} on Kafka, where agents find it, but {address} did not take the copy: {error}; aggregators with --redis copy it there by themselves as soon as Redis answers; without them publish again then"
        ),
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;

    use super::*;

    /// Agents take the rules from Kafka, so the message about a failed copy must report their generation.
    #[tokio::test]
    async fn a_copy_that_fails_does_not_hide_that_the_rules_are_published() {
        let mirror = RuleMirror::new(&"redis://127.0.0.1:1".into(), Arc::new(SystemClock::start())).unwrap();
        let published = Published::new("rules.yaml", "rules: []");
        let told = format!("{:#}", copy_to_redis(&mirror, 7, &published).await.unwrap_err());
        assert!(told.starts_with("rules.yaml is published as generation 7 on Kafka"), "{told}");
        assert!(told.contains("redis://127.0.0.1:1 did not take the copy: "), "{told}");
        assert!(told.contains("aggregators with --redis copy it there by themselves"), "{told}");
        let told = format!("{:#}", to_redis(&mirror, &published).await.unwrap_err());
        assert!(told.contains("did not take the rules") && !told.contains("is published"), "{told}");
    }
}
