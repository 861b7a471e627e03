//! Counters in Redis: one for all agents, each call one round trip.
//!
//! A call is one script ([`script`]) that charges all its counters or none by the server's own clock, or one for each slot
//! ([`apart`]). It decides as the pure state machines of `tollgate_core::algorithm` do, which the conformance suite holds;
//! the verdict is worded by them ([`codec`]). A counter is one string, its slot the hash tag of its key ([`steps`]), and each
//! write renews a TTL after which it would be idle. Nothing here waits for a connection ([`line`]) or takes an error for a denial
//! ([`trouble`]).
//!
//! Left out: clusters and TLS. Redis 5 or newer is needed, since a script takes the time and then writes.

mod settings;
mod script;
mod codec;
mod steps;
mod apart;
mod trouble;
mod eviction;
mod line;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::messages::presence::GONE_AFTER_MS;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

use super::{ChargeResults, Store, StoreError};
use tollgate_core::counter::Charge;

use codec::Manner;
use line::Line;
use script::Script;
use steps::Steps;
use trouble::Troubles;

pub use settings::{PREFIX_DEFAULT, RedisAddressError, RedisSettings, Slots};

/// Counters in Redis.
pub struct RedisStore {
    slots: Slots,
    steps: Steps,
    presence: Script,
    rules: Script,
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
        let steps = Steps::new(&settings.prefix, Arc::new(line));
        Ok(Self { slots: settings.slots, steps, presence: Script::presence(), rules: Script::rules() })
    }

    /// Where it is, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        self.steps.line.troubles.address()
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
        self.steps
            .line
            .run(&self.rules, &[self.rules_key()], &[generation.as_str(), &published.name, &published.text])
            .await
    }

    fn agents_key(&self) -> String {
        format!("{}agents", self.steps.prefix)
    }

    fn rules_key(&self) -> String {
        format!("{}rules", self.steps.prefix)
    }
}

impl Store for RedisStore {
    async fn take(&self, takes: &[Charge]) -> Result<ChargeResults, StoreError> {
        match self.slots {
            Slots::Together => self.steps.run(takes, Manner::Whole).await,
            Slots::Apart => apart::take(&self.steps, takes).await,
        }
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        self.steps.line.ping().await
    }

    async fn show(&self, agent: &str, leaving: bool) -> Result<Option<u32>, StoreError> {
        let (leaving, gone_after_ms) = (if leaving { "1" } else { "0" }, GONE_AFTER_MS.to_string());
        self.steps.line.run(&self.presence, &[self.agents_key()], &[agent, leaving, &gone_after_ms]).await.map(Some)
    }

    async fn rules(&self) -> Result<Option<(Generation, Published)>, StoreError> {
        let mut read = redis::cmd("HMGET");
        read.arg(self.rules_key()).arg(&["generation", "name", "text"]);
        let (generation, name, text): (Option<Generation>, Option<String>, Option<String>) =
            self.steps.line.ask(&read).await?;
        let published = text.map(|text| Published { name: name.unwrap_or_default(), text });
        Ok(generation.zip(published))
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("address", &self.address()).finish_non_exhaustive()
    }
}
