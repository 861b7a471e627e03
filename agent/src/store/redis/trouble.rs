//! What a Redis error means: whether anything may have been charged, and what the operator should do.
//!
//! No error is a denial. Each reason is logged once until the server is reached anew: with the address, the server's own
//! words and a remedy. The address holds no password.

use std::collections::HashSet;

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError};

use crate::store::StoreError;

/// How many reasons are remembered as logged; more are not logged.
const REASONS_MAX: usize = 16;

pub(super) struct Troubles {
    address: String,
    logged: Mutex<HashSet<String>>,
}

impl Troubles {
    pub(super) fn at(address: String) -> Self {
        Self { address, logged: Mutex::default() }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// The server has been reached: what happens from here on is news.
    pub(super) fn forget(&self) {
        self.logged.lock().clear();
    }

    /// What an error means that came back for something that was sent.
    pub(super) fn answered(&self, error: &RedisError) -> StoreError {
        let text = error.to_string();
        let (code, meaning) = meaning(error, &text);
        self.log(code, &text, meaning);
        meaning
    }

    /// What it means that no connection could be made.
    pub(super) fn not_connected(&self, error: &RedisError) -> StoreError {
        if error.is_io_error() {
            self.log("CONNECT", &error.to_string(), StoreError::Unreachable);
            return StoreError::Unreachable;
        }
        self.answered(error)
    }

    /// The step's answer cannot be read.
    pub(super) fn nonsense(&self) -> StoreError {
        self.log("NONSENSE", "the answer to a step cannot be read", StoreError::TimedOut);
        StoreError::TimedOut
    }

    fn log(&self, code: &str, text: &str, meaning: StoreError) {
        // Each unreadable counter is a reason of its own: its key is in the text.
        if self.is_news(if code == "UNREADABLE" { text } else { code }) {
            tracing::warn!(store = %self.address, said = %text, remedy = remedy(code), "{meaning}");
        }
    }

    fn is_news(&self, reason: &str) -> bool {
        let mut logged = self.logged.lock();
        logged.len() < REASONS_MAX && logged.insert(reason.to_owned())
    }
}

/// The code of an error and what it means for a charge.
fn meaning<'a>(error: &'a RedisError, text: &str) -> (&'a str, StoreError) {
    if error.is_io_error() || matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType) {
        return ("BROKEN", StoreError::TimedOut);
    }
    // Before version 7 a script's errors lie inside another one's text.
    if text.contains("OOM command not allowed") || error.code() == Some("OOM") {
        return ("OOM", StoreError::Full);
    }
    let code = if error.kind() == ErrorKind::AuthenticationFailed { Some("WRONGPASS") } else { error.code() };
    match code {
        Some(code @ ("UNREADABLE" | "WRONGTYPE")) => (code, StoreError::Unreadable),
        code => (code.unwrap_or("ERR"), StoreError::Refused),
    }
}

fn remedy(code: &str) -> &'static str {
    match code {
        "CONNECT" => "check the address, and that the server runs and lets this machine in",
        "BROKEN" => "none if it was restarted; a new connection is made",
        "NONSENSE" => "check that nothing between agent and server changes what passes",
        "OOM" => "raise the server's maxmemory, or give limits a Redis of their own",
        "NOAUTH" | "WRONGPASS" => "put user and password into the address: redis://user:password@host",
        "NOPERM" => "allow this user EVALSHA, EVAL and the commands of the steps on keys of the prefix",
        "LOADING" => "none: it is loading its data",
        "BUSY" => "a script of somebody else runs too long; SCRIPT KILL ends it",
        "READONLY" | "MASTERDOWN" => "give the address of the primary",
        "CROSSSLOT" => "start all agents with --redis-slots apart: counters of a call lie in several slots",
        "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" => {
            "give a Redis that is no node of a cluster, or a proxy in front of one with --redis-slots apart"
        }
        "MISCONF" => "mend its snapshots, or set stop-writes-on-bgsave-error no: counters need no persistence",
        "UNREADABLE" => "something else wrote this key; delete it, or choose another prefix",
        _ => "see the server's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_logged_once_until_the_server_is_reached_anew() {
        let troubles = Troubles::at("redis://host".to_owned());
        let news = ["LOADING", "LOADING", "READONLY", "LOADING"].map(|reason| troubles.is_news(reason));
        assert_eq!(news, [true, false, true, false]);
        troubles.forget();
        assert!(troubles.is_news("LOADING"));
        let more = (0..1_000).filter(|key| troubles.is_news(&format!("UNREADABLE: {key}"))).count();
        assert_eq!(more, REASONS_MAX - 1, "many foreign keys do not fill the log");
    }

    /// CROSSSLOT was told to give up the cluster, when a flag is all it takes.
    #[test]
    fn what_a_cluster_says_has_a_remedy_that_works() {
        assert!(remedy("CROSSSLOT").contains("--redis-slots apart"));
        assert!(remedy("MOVED").contains("no node of a cluster"));
    }

    #[test]
    fn no_error_is_a_denial_and_only_a_broken_connection_may_have_charged() {
        let of = |error: &RedisError| meaning(error, &error.to_string()).1;
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe).into();
        assert_eq!(of(&broken), StoreError::TimedOut);
        let said = |text: &str| RedisError::from((ErrorKind::Extension, "said", text.to_owned()));
        assert_eq!(
            of(&said("Error running script: OOM command not allowed when used memory > 'maxmemory'")),
            StoreError::Full
        );
        assert_eq!(
            of(&said("Error running script: READONLY You can't write against a read only replica")),
            StoreError::Refused
        );
    }
}
