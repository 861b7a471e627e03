//! The registry of live agents in Redis, by which agents without a bus know the size of their fleet.
//!
//! An agent announces itself regularly; one that is silent for [`GONE_AFTER_MS`] is removed by whoever announces next. The
//! announcement has the agent's rules and its digest key. The answer has a rank for the rules, which orders the rules of all
//! agents without a comparison of their clocks, and tells which rules are published in the same Redis: the rule mirror has
//! entered their generation.

#[cfg(test)]
mod tests;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::{AnnouncedRules, GAP_MS_MAX, GONE_AFTER_MS, PresenceSet, RULES_GONE_AFTER_MS};

use crate::keys::agents_key;
use crate::link::RedisLink;
use crate::remedy::OwnKey;
use crate::script::Script;
use crate::settings::RedisSettings;

/// Maximum number of agents in an answer.
const AGENTS_LEN_MAX: usize = 10_000;

/// The registry of live agents in Redis.
pub struct FleetRegistry {
    link: RedisLink,
    key: OwnKey,
    key_fingerprint: u64,
    announce: Script,
}

/// Form of an answer: [`PresenceSet`], field by field.
type Answer = (u64, Vec<(String, u64)>, Option<u64>, u64, u64, Option<u64>, u32);

impl FleetRegistry {
    /// A registry on this connection; the connection's owner pings it.
    #[must_use]
    pub fn on(link: impl Into<RedisLink>, settings: &RedisSettings) -> Self {
        let announce = Script::at_store_time(include_str!("lua/fleet_registry.lua"));
        let key = registry_key(&settings.prefix);
        Self { link: link.into(), key, key_fingerprint: settings.key_fingerprint, announce }
    }

    /// Announces that an agent is alive, with its rules. Returns the live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn announce(&self, agent: &str, rules: Option<AnnouncedRules>) -> Result<PresenceSet, StoreError> {
        self.update(agent, "0", rules).await
    }

    /// Removes an agent that stops. Returns the live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn leave(&self, agent: &str) -> Result<PresenceSet, StoreError> {
        self.update(agent, "1", None).await
    }

    async fn update(
        &self,
        agent: &str,
        leaving: &str,
        rules: Option<AnnouncedRules>,
    ) -> Result<PresenceSet, StoreError> {
        let numbering = rules.map_or("", |rules| rules.numbering.as_str());
        let (generation, rank) = rules.map_or((0, 0), |rules| (rules.generation, rules.rank));
        let digest_key = format!("{:016x}", self.key_fingerprint);
        let numbers = [GONE_AFTER_MS, AGENTS_LEN_MAX as u64, GAP_MS_MAX, generation, rank, RULES_GONE_AFTER_MS];
        let [gone_after_ms, agents_max, gap_ms_max, generation, rank, rules_gone_after_ms] =
            numbers.map(|number| number.to_string());
        let args = [
            agent,
            leaving,
            &gone_after_ms,
            &agents_max,
            &gap_ms_max,
            &digest_key,
            numbering,
            &generation,
            &rank,
            &rules_gone_after_ms,
        ];
        let connection = self.link.of_key(&self.key.name)?;
        let answer: Answer = connection.run_at(&self.key, &self.announce, &args).await?;
        let (age_ms, agents, before, rank, newest_rank, published, other_digest_keys) = answer;
        let agents = agents.into_iter().map(|(id, announced)| (id.into(), Timestamp::from_ms(announced))).collect();
        let own_before = before.map(Timestamp::from_ms);
        Ok(PresenceSet { age_ms, agents, own_before, rank, newest_rank, published, other_digest_keys })
    }
}

/// Returns the key of the registry.
pub(crate) fn registry_key(prefix: &str) -> OwnKey {
    OwnKey { name: agents_key(prefix), after_deletion: "the agents announce themselves again" }
}
