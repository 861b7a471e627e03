//! The registry of live agents in Redis, by which agents without a bus know the size of their fleet.
//!
//! An agent announces itself regularly; one that is silent for [`GONE_AFTER_MS`] is removed by whoever announces next.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::{GAP_MS_MAX, GONE_AFTER_MS, PresenceSet};

use crate::connection::Connection;
use crate::remedy::OwnKey;
use crate::script::Script;

/// Maximum number of agents in an answer.
const AGENTS_LEN_MAX: usize = 10_000;

/// The registry of live agents in Redis.
pub struct FleetRegistry {
    connection: Arc<Connection>,
    key: OwnKey,
    announce: Script,
}

impl FleetRegistry {
    /// A registry on this connection; the connection's owner pings it.
    #[must_use]
    pub fn on(connection: Arc<Connection>, prefix: &str) -> Self {
        let announce = Script::at_store_time(include_str!("lua/fleet_registry.lua"));
        let key = OwnKey { name: format!("{prefix}agents"), after_deletion: "the agents announce themselves again" };
        Self { connection, key, announce }
    }

    /// Announces that an agent is alive. Returns the live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn announce(&self, agent: &str) -> Result<PresenceSet, StoreError> {
        self.update(agent, "0").await
    }

    /// Removes an agent that stops. Returns the live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn leave(&self, agent: &str) -> Result<PresenceSet, StoreError> {
        self.update(agent, "1").await
    }

    async fn update(&self, agent: &str, leaving: &str) -> Result<PresenceSet, StoreError> {
        let (gone_after_ms, gap_ms_max) = (GONE_AFTER_MS.to_string(), GAP_MS_MAX.to_string());
        let args = [agent, leaving, &gone_after_ms, &AGENTS_LEN_MAX.to_string(), &gap_ms_max];
        let answer = self.connection.run_at(&self.key, &self.announce, &args).await?;
        let (age_ms, agents, before): (u64, Vec<(String, u64)>, Option<u64>) = answer;
        let agents = agents.into_iter().map(|(id, announced)| (id.into(), Timestamp::from_ms(announced))).collect();
        Ok(PresenceSet { age_ms, agents, own_before: before.map(Timestamp::from_ms) })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_servers::Redis;

    use super::*;
    use crate::settings::RedisSettings;

    async fn registry_on(redis: &Redis) -> FleetRegistry {
        let connection =
            Connection::new(&RedisSettings::new(&redis.url()), Arc::new(SystemClock::start()), Script::store_time());
        let connection = Arc::new(connection.expect("an address"));
        connection.ping().await.expect("Redis answers");
        FleetRegistry::on(connection, "fleet:")
    }

    /// I10: steps of the server's clock, together longer than the removal time, remove no agent and make no young set old.
    #[tokio::test]
    async fn steps_of_the_clock_remove_nobody_and_make_no_set_old() {
        let redis = Redis::start_with_clock();
        let registry = registry_on(&redis).await;
        registry.announce("other").await.expect("Redis answers");
        let mut age_ms = 0;
        for offset_ms in (1..=4).map(|step| 6_000 * step).chain([-3_600_000]) {
            redis.set_clock(offset_ms);
            let set = registry.announce("one").await.expect("Redis answers");
            assert_eq!(set.agents.len(), 2, "{set:?} after {offset_ms} ms");
            assert!((age_ms..GONE_AFTER_MS).contains(&set.age_ms), "{set:?} after {offset_ms} ms");
            age_ms = set.age_ms;
        }
    }

    /// H4: a foreign value under the registry's key is an error until it is deleted, as the log says, and nothing longer.
    #[tokio::test]
    async fn a_foreign_value_is_an_error_until_it_is_deleted() {
        let redis = Redis::start();
        let registry = registry_on(&redis).await;
        assert_eq!(redis.command("SET fleet:agents junk"), "+OK");
        assert_eq!(registry.announce("one").await, Err(StoreError::Unreadable));
        assert_eq!(redis.command("DEL fleet:agents"), ":1");
        assert_eq!(registry.announce("one").await.map(|set| set.agents.len()), Ok(1));
    }

    /// E7: an agent is counted from its first announcement until it leaves or falls silent.
    #[tokio::test]
    async fn live_agents_are_counted() {
        let redis = Redis::start();
        let registry = registry_on(&redis).await;
        let ids = |set: Result<PresenceSet, StoreError>| {
            let agents = set.expect("Redis answers").agents.into_iter();
            agents.map(|(id, _)| id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(registry.announce("one").await), ["one"]);
        assert_eq!(ids(registry.announce("other").await), ["one", "other"]);
        assert_eq!(ids(registry.announce("one").await).len(), 2);
        let own_before = registry.announce("one").await.map(|set| set.own_before);
        assert!(own_before.expect("Redis answers").is_some());
        assert_eq!(registry.announce("new").await.map(|set| set.own_before), Ok(None));
        registry.leave("new").await.expect("Redis answers");
        assert_eq!(ids(registry.leave("other").await), ["one"]);
        assert_eq!(redis.command("ZADD fleet:agents 1000 silent"), ":1");
        let before = registry.announce("one").await.expect("Redis answers");
        let after = registry.announce("one").await.expect("Redis answers");
        assert_eq!(before.agents.len(), 1);
        assert!(after.agents[0].1 >= before.agents[0].1, "each announcement has its time");
        assert!(after.age_ms >= before.age_ms && after.age_ms < GONE_AFTER_MS, "the set is as old as the test");
        assert_ne!(redis.command("PTTL fleet:agents"), ":-1");
    }
}
