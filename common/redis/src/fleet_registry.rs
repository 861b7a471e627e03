//! The registry of live agents in Redis, by which agents without a bus know the size of their fleet.
//!
//! An agent announces itself regularly; one that is silent for [`GONE_AFTER_MS`] is removed by whoever announces next.

use std::sync::Arc;

use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::GONE_AFTER_MS;

use crate::connection::Connection;
use crate::script::Script;

/// The registry of live agents in Redis.
pub struct FleetRegistry {
    connection: Arc<Connection>,
    key: String,
    announce: Script,
}

impl FleetRegistry {
    /// A registry on this connection; the connection's owner pings it.
    #[must_use]
    pub fn on(connection: Arc<Connection>, prefix: &str) -> Self {
        let announce = Script::at_store_time(include_str!("lua/fleet_registry.lua"));
        Self { connection, key: format!("{prefix}agents"), announce }
    }

    /// Announces that an agent is alive. Returns the number of live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn announce(&self, agent: &str) -> Result<u32, StoreError> {
        self.update(agent, "0").await
    }

    /// Removes an agent that stops. Returns the number of live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn leave(&self, agent: &str) -> Result<u32, StoreError> {
        self.update(agent, "1").await
    }

    async fn update(&self, agent: &str, leaving: &str) -> Result<u32, StoreError> {
        self.connection.run(&self.announce, &[&self.key], &[agent, leaving, &GONE_AFTER_MS.to_string()]).await
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_servers::Redis;

    use super::*;
    use crate::settings::RedisSettings;

    /// E7: an agent is counted from its first announcement until it leaves or falls silent.
    #[tokio::test]
    async fn live_agents_are_counted() {
        let redis = Redis::start();
        let connection =
            Connection::new(&RedisSettings::new(&redis.url()), Arc::new(SystemClock::start()), Script::store_time());
        let connection = Arc::new(connection.expect("an address"));
        connection.ping().await.expect("Redis answers");
        let registry = FleetRegistry::on(connection, "fleet:");
        assert_eq!(registry.announce("one").await, Ok(1));
        assert_eq!(registry.announce("other").await, Ok(2));
        assert_eq!(registry.announce("one").await, Ok(2));
        assert_eq!(registry.leave("other").await, Ok(1));
        assert_eq!(redis.command("ZADD fleet:agents 1000 silent"), ":1");
        assert_eq!(registry.announce("one").await, Ok(1));
        assert_ne!(redis.command("PTTL fleet:agents"), ":-1");
    }
}
