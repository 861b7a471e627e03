//! The published rules in Redis, where agents that start while Kafka is away find them.
//!
//! In a fleet without Kafka this is the only place of the published rules. A newer generation is never replaced by an older
//! one. The generation is also entered into the set of agents, whose announcements tell it: the rules and the set may lie in
//! different hash slots.

use std::sync::Arc;

use redis::Cmd;
use tollgate_core::clock::Clock;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::GONE_AFTER_MS;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

use crate::address::RedisAddressError;
use crate::fleet_registry::registry_key;
use crate::keys::rules_key;
use crate::link::RedisLink;
use crate::remedy::OwnKey;
use crate::script::Script;
use crate::settings::RedisSettings;

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
        let publish = Script::new(include_str!("lua/rule_mirror.lua"));
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

    /// Publishes rules unless newer ones are stored, and connects first if need be. Without a generation, they become the
    /// next one. Returns the generation that is stored then; a higher one than given means that newer rules are stored.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn publish(
        &self,
        generation: Option<Generation>,
        published: &Published,
    ) -> Result<Generation, StoreError> {
        let connection = self.link.awaited(&self.key.name).await?;
        let generation = generation.map(|generation| generation.to_string()).unwrap_or_default();
        let args = [generation.as_str(), &published.name, &published.text];
        let stored: Generation = connection.run_at(&self.key, &self.publish, &args).await?;
        // Agents that are not told read the rules a little later.
        let args = [stored.to_string(), GONE_AFTER_MS.to_string()];
        if let Ok(registry) = self.link.awaited(&self.registry.name).await {
            let _: Result<(), StoreError> = registry.run_at(&self.registry, &self.tell, &args).await;
        }
        Ok(stored)
    }

    /// The published rules and their generation, if there are any.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn read(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        let connection = self.link.of_key(&self.key.name)?;
        let read = Cmd::hmget(&self.key.name, &["generation", "name", "text"]);
        let (generation, name, text): (Option<String>, Option<String>, Option<String>) =
            connection.request_at(&self.key, &read).await?;
        let generation = generation.map(|generation| generation.parse()).transpose();
        let generation: Option<Generation> = generation.map_err(|_| connection.own_value_unreadable(&self.key))?;
        let published = text.map(|text| Published { name: name.unwrap_or_default(), text });
        Ok(generation.zip(published))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_servers::Redis;

    use super::*;

    fn published(name: &str) -> Published {
        Published { name: name.to_owned(), text: format!("rules: [] # {name}") }
    }

    /// F7, F8: rules travel through Redis too, and older ones never replace newer ones.
    #[tokio::test]
    async fn a_newer_generation_is_never_replaced_by_an_older_one() {
        let redis = Redis::start();
        let settings = RedisSettings { prefix: "mirror:".to_owned(), ..RedisSettings::new(&redis.url()) };
        let mirror = || RuleMirror::new(&settings, Arc::new(SystemClock::start())).expect("an address");
        let (one, other) = (mirror(), mirror());
        assert_eq!(other.read().await, Err(StoreError::Unreachable), "no request waits for a connection");
        assert_eq!(other.link.awaited("k").await.map(|_| ()), Ok(()));
        assert_eq!(other.read().await, Ok(None));
        assert_eq!(one.publish(None, &published("a")).await, Ok(1));
        assert_eq!(one.publish(Some(7), &published("b")).await, Ok(7));
        assert_eq!(one.publish(Some(3), &published("old")).await, Ok(7));
        assert_eq!(one.publish(Some(7), &published("same")).await, Ok(7));
        assert_eq!(other.read().await, Ok(Some((7, published("b")))));
        assert_eq!(other.publish(None, &published("c")).await, Ok(8));
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
        assert_eq!(mirror.publish(None, &published("a")).await, Ok(1));
        assert_eq!(mirror.read().await, Ok(Some((1, published("a")))));
    }
}
