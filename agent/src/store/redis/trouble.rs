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
        let reason = if code == "UNREADABLE" { text } else { code };
        let mut logged = self.logged.lock();
        if logged.contains(reason) || logged.len() >= REASONS_MAX {
            return;
        }
        logged.insert(reason.to_owned());
        tracing::warn!(store = %self.address, said = %text, remedy = remedy(code), "{meaning}");
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
    (code.unwrap_or("ERR"), StoreError::Refused)
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
        "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" | "CROSSSLOT" => "give a Redis that is not a cluster",
        "MISCONF" => "mend its snapshots, or set stop-writes-on-bgsave-error no: counters need no persistence",
        "UNREADABLE" => "something else wrote this key; delete it, or choose another prefix",
        _ => "see the server's log",
    }
}
