//! Lua scripts: one round trip each, whatever they read and write.
//!
//! A script is sent by its hash; a server that does not know the hash answers NOSCRIPT and is sent the text
//! ([`RedisConnection::run`](crate::RedisConnection::run)).

use redis::{Cmd, ToRedisArgs};

/// Lua that binds `now` to the server's time in ms.
const STORE_TIME: &str = include_str!("lua/time.lua");

/// A Lua script and its hash.
#[derive(Debug)]
pub struct Script {
    text: String,
    hash: String,
}

impl Script {
    /// A script with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), hash: redis::Script::new(text).get_hash().to_owned() }
    }

    /// A script in which `now` is the server's time in ms.
    #[must_use]
    pub fn at_store_time(body: &str) -> Self {
        Self::new(&format!("{STORE_TIME}{body}"))
    }

    /// A script that returns the server's time and touches no key.
    pub(crate) fn store_time() -> Self {
        Self::at_store_time("return now")
    }

    pub(crate) fn by_hash(&self, keys: &[impl ToRedisArgs], args: &[impl ToRedisArgs]) -> Cmd {
        redis::cmd("EVALSHA").arg(&self.hash).arg(keys.len()).arg(keys).arg(args).take()
    }

    pub(crate) fn by_text(&self, keys: &[impl ToRedisArgs], args: &[impl ToRedisArgs]) -> Cmd {
        redis::cmd("EVAL").arg(&self.text).arg(keys.len()).arg(keys).arg(args).take()
    }
}
