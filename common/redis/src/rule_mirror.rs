//! The published rules in Redis, where agents that start while Kafka is away find them, and the publications before them.
//!
//! In a fleet without Kafka this is the only place of the published rules. A newer generation is never replaced by an older
//! one. The generation is also entered into the set of agents, whose announcements tell it: the rules and the set may lie in
//! different hash slots.

use std::sync::Arc;

use redis::Cmd;
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::GONE_AFTER_MS;
use tollgate_core::messages::rules::{HISTORY_LEN_MAX, Published};
use tollgate_core::rules::{Generation, Numbering};

use crate::address::RedisAddressError;
use crate::fleet_registry::registry_key;
use crate::keys::rules_key;
use crate::link::RedisLink;
use crate::remedy::OwnKey;
use crate::script::Script;
use crate::settings::RedisSettings;

/// Maximum length in bytes of the publications that are kept beside the newest one.
const HISTORY_BYTES_MAX: usize = 8 << 20;
/// Fields of a publication.
const FIELDS: [&str; 6] = ["name", "text", "overrides", "author", "comment", "at"];

/// Outcome of a publication in Redis, with the generation that is stored then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorOutcome {
    /// The rules are published.
    Published(Generation),
    /// Other rules are stored than those that these replace.
    Overtaken(Generation),
    /// The stored rules are copied from Kafka, whose next publication agents would take for an older one.
    CopiedFromKafka(Generation),
}

/// The published rules in Redis.
pub struct RuleMirror {
    link: RedisLink,
    key: OwnKey,
    registry: OwnKey,
    publish: Script,
    tell: Script,
}

impl RuleMirror {
    /// A mirror with a connection of its own.
    ///
    /// # Errors
    /// When the address is not that of a Redis.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>) -> Result<Self, RedisAddressError> {
        Ok(Self::on(RedisLink::new(settings, clock, Script::store_time)?, &settings.prefix))
    }

    /// A mirror that shares a connection; the connection's owner pings it.
    #[must_use]
    pub fn on(link: impl Into<RedisLink>, prefix: &str) -> Self {
        let after_deletion = "publish the rules again with `tollgate rules publish FILE`";
        let key = OwnKey { name: rules_key(prefix), after_deletion };
        let publish = Script::at_store_time(include_str!("lua/rule_mirror.lua"));
        let tell = Script::new(include_str!("lua/tell_published.lua"));
        Self { link: link.into(), key, registry: registry_key(prefix), publish, tell }
    }

    /// Name of the key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key.name
    }

    /// Address of the server, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.link.address()
    }

    /// Copies rules that are published elsewhere, unless newer ones are stored; connects first if need be. `at` is the time
    /// of the publication. Returns the generation that is stored then; a higher one than given means that newer rules are
    /// stored.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn copy(
        &self,
        generation: Generation,
        at: Option<Timestamp>,
        published: &Published,
    ) -> Result<Generation, StoreError> {
        Ok(self.store(Some(generation), at, &Published { replaces: None, ..published.clone() }).await?.0)
    }

    /// Publishes rules as the next generation; connects first if need be. It is above that of each live agent, which would ignore it
    /// otherwise if Redis has lost the publications.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn publish(&self, published: &Published) -> Result<MirrorOutcome, StoreError> {
        let (stored, outcome) = self.store(None, None, published).await?;
        Ok(match outcome {
            1 => MirrorOutcome::Published(stored),
            2 => MirrorOutcome::CopiedFromKafka(stored),
            _ => MirrorOutcome::Overtaken(stored),
        })
    }

    async fn store(
        &self,
        generation: Option<Generation>,
        at: Option<Timestamp>,
        published: &Published,
    ) -> Result<(Generation, u8), StoreError> {
        let of_agents = if generation.is_none() { self.generation_of_agents().await? } else { 0 };
        let connection = self.link.awaited(&self.key.name).await?;
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        let (generation, replaces, at) =
            (number(generation), number(published.replaces), number(at.map(Timestamp::as_ms)));
        let (kept, bytes, of_agents) =
            (HISTORY_LEN_MAX.to_string(), HISTORY_BYTES_MAX.to_string(), of_agents.to_string());
        let Published { name, text, overrides, author, comment, .. } = published;
        let args = [&*generation, &replaces, &at, &kept, &bytes, name, text, overrides, author, comment, &of_agents];
        let (stored, outcome): (Generation, u8) = connection.run_at(&self.key, &self.publish, &args).await?;
        // Agents that are not told read the rules a little later.
        let args = [stored.to_string(), GONE_AFTER_MS.to_string()];
        if let Ok(registry) = self.link.awaited(&self.registry.name).await {
            let _: Result<(), StoreError> = registry.run_at(&self.registry, &self.tell, &args).await;
        }
        Ok((stored, outcome))
    }

    /// Returns the newest generation of published rules that live agents have announced; 0 if none is known.
    async fn generation_of_agents(&self) -> Result<Generation, StoreError> {
        let announced = Cmd::zscore(&self.registry.name, format!("\0rules {}", Numbering::Publication.as_str()));
        let registry = self.link.awaited(&self.registry.name).await?;
        // An entry holds 1 more than the generation, so that its score is negative.
        let score: Option<i64> = match registry.request_at(&self.registry, &announced).await {
            // A foreign value: nobody has announced anything.
            Err(StoreError::Unreadable) => None,
            score => score?,
        };
        Ok(score.map_or(0, i64::unsigned_abs).saturating_sub(1))
    }

    /// Returns the generation of the published rules, if there are any; connects first if need be.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn newest(&self) -> Result<Option<Generation>, StoreError> {
        let connection = self.link.awaited(&self.key.name).await?;
        connection.request_at(&self.key, &Cmd::hget(&self.key.name, "generation")).await
    }

    /// The published rules and their generation, if there are any.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn read(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        let connection = self.link.of_key(&self.key.name)?;
        let newest = Cmd::hmget(&self.key.name, ["generation"].iter().chain(&FIELDS).collect::<Vec<_>>());
        let mut fields: Vec<Option<String>> = connection.request_at(&self.key, &newest).await?;
        let generation = fields.remove(0).map(|generation| generation.parse()).transpose();
        let generation: Option<Generation> = generation.map_err(|_| connection.own_value_unreadable(&self.key))?;
        Ok(generation.zip(publication(fields)).map(|(generation, (_, published))| (generation, published)))
    }

    /// The publications that are kept, from the oldest on, each with its time; connects first if need be.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn history(&self) -> Result<Vec<(Generation, Timestamp, Published)>, StoreError> {
        let connection = self.link.awaited(&self.key.name).await?;
        let heads = Cmd::hmget(&self.key.name, &["generation", "kept"]);
        let (newest, kept): (Option<Generation>, Option<String>) = connection.request_at(&self.key, &heads).await?;
        let Some(newest) = newest else { return Ok(Vec::new()) };
        let kept = kept.unwrap_or_default();
        let older = kept.split_whitespace().filter_map(|entry| entry.split_once(':')?.0.parse().ok());
        let mut history = Vec::new();
        for generation in older.chain([newest]) {
            let prefix = if generation == newest { String::new() } else { format!("{generation} ") };
            let fields: Vec<String> = FIELDS.iter().map(|field| format!("{prefix}{field}")).collect();
            let read = connection.request_at(&self.key, &Cmd::hmget(&self.key.name, &fields)).await?;
            history.extend(publication(read).map(|(at, published)| (generation, at, published)));
        }
        Ok(history)
    }
}

/// Returns a publication by its [`FIELDS`], and its time; none if it has no text.
fn publication(fields: Vec<Option<String>>) -> Option<(Timestamp, Published)> {
    let mut fields = fields.into_iter();
    let mut next = || fields.next().flatten();
    let (name, text) = (next().unwrap_or_default(), next()?);
    let [overrides, author, comment, at] = std::array::from_fn(|_| next().unwrap_or_default());
    let published = Published { name, text, overrides, author, comment, replaces: None };
    Some((Timestamp::from_ms(at.parse().unwrap_or_default()), published))
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_servers::Redis;

    use super::*;

    fn published(name: &str) -> Published {
        Published::new(name, format!("rules: [] # {name}"))
    }

    /// F7, F8: rules travel through Redis too, and older ones never replace newer ones. Rules that are copied from Kafka are not replaced.
    #[tokio::test]
    async fn a_newer_generation_is_never_replaced_by_an_older_one() {
        let redis = Redis::start();
        let settings = RedisSettings { prefix: "mirror:".to_owned(), ..RedisSettings::new(&redis.url()) };
        let mirror = || RuleMirror::new(&settings, Arc::new(SystemClock::start())).expect("an address");
        let (one, other) = (mirror(), mirror());
        assert_eq!(other.read().await, Err(StoreError::Unreachable), "no request waits for a connection");
        assert_eq!(other.link.awaited("k").await.map(|_| ()), Ok(()));
        assert_eq!(other.read().await, Ok(None));
        let first = |name| Published { replaces: Some(0), ..published(name) };
        assert_eq!(one.publish(&first("a")).await, Ok(MirrorOutcome::Published(1)));
        assert_eq!(other.publish(&first("b")).await, Ok(MirrorOutcome::Overtaken(1)), "two first publishers at once");
        assert_eq!(one.copy(7, None, &published("b")).await, Ok(7));
        assert_eq!(one.copy(3, None, &published("old")).await, Ok(7));
        assert_eq!(one.copy(7, None, &published("same")).await, Ok(7));
        assert_eq!(other.read().await, Ok(Some((7, published("b")))));
        assert_eq!(other.publish(&published("c")).await, Ok(MirrorOutcome::CopiedFromKafka(7)));
        assert_eq!(other.read().await, Ok(Some((7, published("b")))));
        assert_eq!(redis.command("HDEL mirror:rules copied"), ":1");
        assert_eq!(other.publish(&published("c")).await, Ok(MirrorOutcome::Published(8)));
        assert_eq!(redis.command("PTTL mirror:rules"), ":-1", "rules do not expire");
    }

    /// H4: foreign values in place of the rules are errors until rules are published again, and the connection stays.
    #[tokio::test]
    async fn foreign_values_are_errors_until_rules_are_published_again() {
        let redis = Redis::start();
        let settings = RedisSettings { prefix: "mirror:".to_owned(), ..RedisSettings::new(&redis.url()) };
        let mirror = RuleMirror::new(&settings, Arc::new(SystemClock::start())).expect("an address");
        assert_eq!(mirror.link.awaited("k").await.map(|_| ()), Ok(()));
        assert_eq!(redis.command("RPUSH mirror:rules junk"), ":1");
        assert_eq!(mirror.read().await, Err(StoreError::Unreadable));
        assert_eq!(redis.command("DEL mirror:rules"), ":1");
        assert_eq!(redis.command("HSET mirror:rules generation junk name a text b"), ":3");
        assert_eq!(
            (mirror.read().await, mirror.read().await),
            (Err(StoreError::Unreadable), Err(StoreError::Unreadable))
        );
        assert_eq!(mirror.publish(&published("a")).await, Ok(MirrorOutcome::Published(1)));
        assert_eq!(mirror.read().await, Ok(Some((1, published("a")))));
    }

    /// F7: the last publications are kept with their authors and times, and one that was made for other rules changes nothing.
    #[tokio::test]
    async fn the_last_publications_are_kept_and_a_late_publisher_changes_nothing() {
        let redis = Redis::start();
        let mirror =
            RuleMirror::new(&RedisSettings::new(&redis.url()), Arc::new(SystemClock::start())).expect("an address");
        assert_eq!(mirror.history().await, Ok(Vec::new()));
        let of = |number: u64| Published {
            author: format!("author-{number}"),
            comment: format!("why-{number}"),
            overrides: "[]".to_owned(),
            ..published(&number.to_string())
        };
        for number in 1..=HISTORY_LEN_MAX as u64 + 3 {
            let publication = Published { replaces: (number > 1).then_some(number - 1), ..of(number) };
            assert_eq!(mirror.publish(&publication).await, Ok(MirrorOutcome::Published(number)));
        }
        let newest = HISTORY_LEN_MAX as u64 + 3;
        let late = Published { replaces: Some(newest - 1), ..of(99) };
        assert_eq!(mirror.publish(&late).await, Ok(MirrorOutcome::Overtaken(newest)));
        let history = mirror.history().await.expect("a history");
        let kept: Vec<_> = history.iter().map(|(generation, _, published)| (*generation, published.clone())).collect();
        assert_eq!(kept, (4..=newest).map(|number| (number, of(number))).collect::<Vec<_>>());
        let times: Vec<_> = history.iter().map(|(_, at, _)| *at).collect();
        assert!(times.is_sorted() && times[0].as_ms() > 1_700_000_000_000, "{times:?}");
        let fields = redis.command("HLEN tollgate:rules");
        assert_eq!(fields, format!(":{}", 8 + (HISTORY_LEN_MAX - 1) * FIELDS.len()), "older ones are removed");
        let long = |name| Published::new(name, "x".repeat(HISTORY_BYTES_MAX / 3 + 1));
        for name in ["a", "b", "c", "d"] {
            assert!(matches!(mirror.publish(&long(name)).await, Ok(MirrorOutcome::Published(_))));
        }
        let history = mirror.history().await.expect("a history");
        assert_eq!(history.len(), 3, "long ones are fewer");
    }
}
