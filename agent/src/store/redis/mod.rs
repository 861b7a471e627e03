//! Counters in Redis: one for all agents, each call one round trip.
//!
//! A call is one script ([`script`]) that charges all its counters or none by the server's own clock. It decides as the
//! pure state machines of `tollgate_common::algorithm` do, which the conformance suite holds; the verdict is worded by them
//! ([`codec`]). A counter is one string under `{prefix}{digest}`, the digest in braces as hash tag, and each write renews a
//! TTL after which it would be idle. Nothing here waits for a connection ([`line`]) or takes an error for a denial
//! ([`trouble`]).
//!
//! Left out: clusters and TLS. Redis 5 or newer is needed, since a script takes the time and then writes.

mod settings;
mod script;
mod codec;
mod trouble;
mod eviction;
mod line;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_common::clock::{Clock, Timestamp};
use tollgate_common::counter::CounterId;
use tollgate_common::presence::GONE_AFTER_MS;
use tollgate_common::rule::{Generation, Published};

use super::{Answers, Store, StoreError};
use crate::enforce::Take;

use codec::{Packed, Stepped};
use line::Line;
use script::Script;
use trouble::Troubles;

pub use settings::{PREFIX_DEFAULT, RedisAddressError, RedisSettings};

/// Counters in Redis.
pub struct RedisStore {
    prefix: String,
    presence: Script,
    rules: Script,
    line: Arc<Line>,
}

impl RedisStore {
    /// A store at this address. It connects at the first [`Store::ping`], inside a tokio runtime; until then it is
    /// unreachable.
    ///
    /// # Errors
    /// When the address is not one of a Redis.
    pub fn new(settings: &RedisSettings, clock: Arc<dyn Clock>) -> Result<Self, RedisAddressError> {
        Self::with_step(settings, clock, Script::take())
    }

    fn with_step(settings: &RedisSettings, clock: Arc<dyn Clock>, take: Script) -> Result<Self, RedisAddressError> {
        let (client, address) = settings.client()?;
        let line = Line::new(client, clock, take, Troubles::at(address));
        Ok(Self {
            prefix: settings.prefix.clone(),
            presence: Script::presence(),
            rules: Script::rules(),
            line: Arc::new(line),
        })
    }

    /// Where it is, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.line.troubles.address()
    }

    /// Publishes rules for all agents that share this store, unless newer ones are there; without a generation they are
    /// the next one. Returns the generation that is there then: another one than was given means that it is newer.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn publish_rules(
        &self,
        generation: Option<Generation>,
        published: &Published,
    ) -> Result<Generation, StoreError> {
        let generation = generation.map(|generation| generation.to_string()).unwrap_or_default();
        self.line.run(&self.rules, &[self.rules_key()], &[generation.as_str(), &published.name, &published.text]).await
    }

    fn key(&self, counter: CounterId) -> String {
        format!("{}{{{counter}}}", self.prefix)
    }

    fn agents_key(&self) -> String {
        format!("{}agents", self.prefix)
    }

    fn rules_key(&self) -> String {
        format!("{}rules", self.prefix)
    }
}

impl Store for RedisStore {
    async fn take(&self, takes: &[Take]) -> Result<Answers, StoreError> {
        let keys: SmallVec<[String; 2]> = takes.iter().map(|take| self.key(take.counter)).collect();
        let packed: SmallVec<[Packed; 2]> = takes.iter().map(Packed::new).collect();
        let reply: Vec<u8> = self.line.run(&self.line.take, &keys, &packed).await?;
        let answers = Stepped::read(&reply).and_then(|stepped| stepped.answers(takes));
        answers.unwrap_or_else(|| Err(self.line.troubles.nonsense()))
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.line.ping().await
    }

    async fn show(&self, agent: &str, leaving: bool) -> Result<Option<u32>, StoreError> {
        let (leaving, gone_after_ms) = (if leaving { "1" } else { "0" }, GONE_AFTER_MS.to_string());
        self.line.run(&self.presence, &[self.agents_key()], &[agent, leaving, &gone_after_ms]).await.map(Some)
    }

    async fn rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        let mut read = redis::cmd("HMGET");
        read.arg(self.rules_key()).arg(&["generation", "name", "text"]);
        let (generation, name, text): (Option<Generation>, Option<String>, Option<String>) =
            self.line.ask(&read).await?;
        let published = text.map(|text| Published { name: name.unwrap_or_default(), text });
        Ok(generation.zip(published))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("address", &self.address()).finish_non_exhaustive()
    }
}
