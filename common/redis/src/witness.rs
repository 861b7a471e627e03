//! The witness of an agent in Redis: a number that only rises, by which the agent sees that the server has lost its data.
//!
//! The maintenance of the agent compares the numbers (`agent/engine/src/maintenance/witness.rs`).

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;

use crate::connection::Connection;
use crate::script::Script;

/// Numbers of agents in Redis.
pub struct Witnesses {
    connection: Arc<Connection>,
    prefix: String,
    raise: Script,
}

impl Witnesses {
    /// Numbers on this connection; the connection's owner pings it.
    #[must_use]
    pub fn on(connection: Arc<Connection>, prefix: &str) -> Self {
        let raise = Script::at_store_time(include_str!("lua/witness.lua"));
        Self { connection, prefix: format!("{prefix}witness:"), raise }
    }

    /// Raises the number of one life of an agent, which is kept so long. Returns the server's time, and the number before. A
    /// foreign value in its place counts as none.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn raise(&self, life: &str, number: u64, kept_ms: u64) -> Result<(Timestamp, Option<u64>), StoreError> {
        let key = format!("{}{life}", self.prefix);
        let args = [number.to_string(), kept_ms.to_string()];
        let (now_ms, before): (u64, i64) = self.connection.run(&self.raise, &[key], &args).await?;
        Ok((Timestamp::from_ms(now_ms), u64::try_from(before).ok()))
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_servers::Redis;

    use super::*;
    use crate::settings::RedisSettings;

    async fn witnesses() -> (Redis, Witnesses) {
        let redis = Redis::start();
        let connection =
            Connection::new(&RedisSettings::new(&redis.url()), Arc::new(SystemClock::start()), Script::store_time());
        let connection = Arc::new(connection.expect("an address"));
        connection.ping().await.expect("Redis answers");
        (redis, Witnesses::on(connection, "w:"))
    }

    /// I12: the number never falls, whatever the order of requests, and a flush removes it.
    #[tokio::test]
    async fn a_number_only_rises_until_it_is_lost() {
        let (redis, witnesses) = witnesses().await;
        let raise = async |number| witnesses.raise("a@1", number, 60_000).await.map(|(_, before)| before);
        assert_eq!((raise(1).await, raise(3).await, raise(2).await), (Ok(None), Ok(Some(1)), Ok(Some(3))));
        assert_ne!(redis.command("PTTL w:witness:a@1"), ":-1");
        assert_eq!(redis.command("FLUSHALL"), "+OK");
        assert_eq!((raise(4).await, raise(5).await), (Ok(None), Ok(Some(4))));
    }

    /// I12: a value that another program wrote under the key is read as missing and written anew, whatever its type.
    #[tokio::test]
    async fn a_foreign_value_is_read_as_missing_and_written_anew() {
        let (redis, witnesses) = witnesses().await;
        let raise = async |number| witnesses.raise("a@1", number, 60_000).await.map(|(_, before)| before);
        for command in [
            "SET w:witness:a@1 junk",
            "SET w:witness:a@1 inf",
            "SET w:witness:a@1 -5",
            "SET w:witness:a@1 0x10",
            "SET w:witness:a@1 99999999999999999999",
            "SETBIT w:witness:a@1 7 1",
            "RPUSH w:witness:a@1 a b",
            "HSET w:witness:a@1 a b",
        ] {
            assert_eq!(redis.command("DEL w:witness:a@1").len(), 2);
            assert!(!redis.command(command).starts_with('-'), "{command}");
            assert_eq!((raise(7).await, raise(8).await), (Ok(None), Ok(Some(7))), "{command}");
            assert_ne!(redis.command("PTTL w:witness:a@1"), ":-1", "{command}");
        }
    }
}
