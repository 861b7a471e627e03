//! The witness of an agent in Redis: a number that only rises, by which the agent sees that the server has lost its
//! data, and the run id of the server that has answered. The script reads the run id: behind a proxy, another command
//! may reach another server.
//!
//! The maintenance of the agent compares both with those before (`agent/engine/src/housekeeping/maintenance/witness.rs`).

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{PrimaryIndex, StoreError};

use crate::link::RedisLink;
use crate::script::Script;

/// Number of hexadecimal digits of a run id that are compared: 64 bits.
const RUN_ID_DIGITS: usize = 16;

/// Answer to a raised number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaisedNumber {
    /// The server's time.
    pub at: Timestamp,
    /// The number before; none if there was none, or a foreign value.
    pub before: Option<u64>,
    /// Beginning of the server's run id; none if the server refuses INFO.
    pub run_id: Option<u64>,
}

/// Numbers of agents in Redis.
pub struct Witnesses {
    link: RedisLink,
    prefix: String,
    raise: Script,
}

impl Witnesses {
    /// Numbers on this connection; the connection's owner pings it.
    #[must_use]
    pub fn on(link: impl Into<RedisLink>, prefix: &str) -> Self {
        let raise = Script::at_store_time(include_str!("lua/witness.lua"));
        Self { link: link.into(), prefix: format!("{prefix}witness:"), raise }
    }

    /// Raises the number of one life of an agent at a primary, which is kept so long. In a cluster, the number is under a key whose
    /// slot the primary holds; after its slot has moved, under another one, where it is missing.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn raise(
        &self,
        primary: PrimaryIndex,
        life: &str,
        number: u64,
        kept_ms: u64,
    ) -> Result<RaisedNumber, StoreError> {
        let (connection, key) = match &self.link {
            RedisLink::Server(connection) => (connection.clone(), format!("{}{life}", self.prefix)),
            RedisLink::Cluster(cluster) => {
                let (connection, tag) = cluster.own_slot(primary)?;
                (connection, format!("{}{{{tag}}}{life}", self.prefix))
            }
        };
        let args = [number.to_string(), kept_ms.to_string()];
        let (now_ms, before, run_id): (u64, i64, String) = connection.run(&self.raise, &[key], &args).await?;
        let run_id = run_id.get(..RUN_ID_DIGITS).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Ok(RaisedNumber { at: Timestamp::from_ms(now_ms), before: u64::try_from(before).ok(), run_id })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tollgate_core::clock::SystemClock;
    use tollgate_servers::Redis;

    use super::*;
    use crate::connection::RedisConnection;
    use crate::settings::RedisSettings;

    async fn connected(redis: &Redis) -> Witnesses {
        let connection = RedisConnection::new(
            &RedisSettings::new(&redis.url()),
            Arc::new(SystemClock::start()),
            Script::store_time(),
        );
        let connection = Arc::new(connection.expect("an address"));
        connection.ping().await.expect("Redis answers");
        Witnesses::on(connection, "w:")
    }

    async fn witnesses() -> (Redis, Witnesses) {
        let redis = Redis::start();
        let witnesses = connected(&redis).await;
        (redis, witnesses)
    }

    /// I12: the number never falls, whatever the order of requests, and a flush removes it.
    #[tokio::test]
    async fn a_number_only_rises_until_it_is_lost() {
        let (redis, witnesses) = witnesses().await;
        let raise =
            async |number| witnesses.raise(PrimaryIndex::ONLY, "a@1", number, 60_000).await.map(|raised| raised.before);
        assert_eq!((raise(1).await, raise(3).await, raise(2).await), (Ok(None), Ok(Some(1)), Ok(Some(3))));
        assert_ne!(redis.command("PTTL w:witness:a@1"), ":-1");
        assert_eq!(redis.command("FLUSHALL"), "+OK");
        assert_eq!((raise(4).await, raise(5).await), (Ok(None), Ok(Some(4))));
    }

    /// The run id is that of the process, and none for a user who may not ask for it.
    #[tokio::test]
    async fn a_run_id_names_the_process() {
        let (mut redis, before) = witnesses().await;
        let run_id = async |witnesses: &Witnesses| {
            witnesses.raise(PrimaryIndex::ONLY, "a@1", 1, 60_000).await.expect("an answer").run_id
        };
        let first = run_id(&before).await;
        assert!(first.is_some() && first == run_id(&before).await, "{first:?}");
        redis.kill();
        redis.restart();
        let after = connected(&redis).await;
        let second = run_id(&after).await;
        assert!(second.is_some() && first != second, "{first:?}, {second:?}");
        assert_eq!(redis.command("ACL SETUSER default -info"), "+OK");
        assert_eq!(run_id(&after).await, None);
    }

    /// I12: a value that another program wrote under the key is read as missing and written anew, whatever its type.
    #[tokio::test]
    async fn a_foreign_value_is_read_as_missing_and_written_anew() {
        let (redis, witnesses) = witnesses().await;
        let raise =
            async |number| witnesses.raise(PrimaryIndex::ONLY, "a@1", number, 60_000).await.map(|raised| raised.before);
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
