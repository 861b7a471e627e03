//! Steps that run inside Redis: one round trip each, whatever they read and write.
//!
//! A step is sent by its hash; a server that does not know it answers NOSCRIPT and is sent the text. Each begins with
//! `steps/time.lua`, the one place where it takes the time, so that a test can bind another.

use redis::{Cmd, ToRedisArgs};

const TIME: &str = include_str!("../steps/time.lua");
const TAKE: &str = concat!(
    include_str!("../steps/counter.lua"),
    include_str!("../steps/log.lua"),
    include_str!("../steps/meter.lua"),
    include_str!("../steps/reserve.lua"),
    include_str!("../steps/switch.lua"),
    include_str!("../steps/back.lua"),
    include_str!("../steps/exact.lua"),
    include_str!("../steps/tentative.lua"),
    include_str!("../steps/evaluate.lua"),
    include_str!("../steps/settle.lua"),
);
const PRESENCE: &str = include_str!("../steps/presence.lua");
const RULES: &str = include_str!("../steps/rules.lua");

/// Takes the time from the last argument: the clock of a test.
#[cfg(test)]
const TIME_OF_A_TEST: &str = "local now = tonumber(table.remove(ARGV))\n";

pub(super) struct Script {
    text: String,
    hash: String,
    #[cfg(test)]
    clock: Option<std::sync::Arc<dyn tollgate_core::clock::Clock>>,
}

impl Script {
    /// Charges counters.
    pub(super) fn take() -> Self {
        Self::new(TIME, TAKE)
    }

    /// The same by a test's clock.
    #[cfg(test)]
    pub(super) fn take_by(clock: std::sync::Arc<dyn tollgate_core::clock::Clock>) -> Self {
        Self { clock: Some(clock), ..Self::new(TIME_OF_A_TEST, TAKE) }
    }

    /// Shows an agent.
    pub(super) fn presence() -> Self {
        Self::new(TIME, PRESENCE)
    }

    /// Publishes rules.
    pub(super) fn rules() -> Self {
        Self::new("", RULES)
    }

    fn new(time: &str, body: &str) -> Self {
        let text = format!("{time}{body}");
        let hash = redis::Script::new(&text).get_hash().to_owned();
        Self {
            text,
            hash,
            #[cfg(test)]
            clock: None,
        }
    }

    /// The command that runs it on a server that knows it.
    pub(super) fn by_hash<K: ToRedisArgs, A: ToRedisArgs>(&self, keys: &[K], args: &[A]) -> Cmd {
        self.command("EVALSHA", keys, args)
    }

    /// The same for one that does not.
    pub(super) fn by_text<K: ToRedisArgs, A: ToRedisArgs>(&self, keys: &[K], args: &[A]) -> Cmd {
        self.command("EVAL", keys, args)
    }

    fn command<K: ToRedisArgs, A: ToRedisArgs>(&self, name: &str, keys: &[K], args: &[A]) -> Cmd {
        let script = if name == "EVAL" { &self.text } else { &self.hash };
        let mut command = redis::cmd(name);
        command.arg(script).arg(keys.len());
        for key in keys {
            command.arg(key);
        }
        for arg in args {
            command.arg(arg);
        }
        #[cfg(test)]
        if let Some(clock) = &self.clock {
            command.arg(clock.now().as_ms());
        }
        command
    }
}
