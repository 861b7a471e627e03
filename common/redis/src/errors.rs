//! Errors of requests to Redis: whether a request may have run, and the remedy for the operator.
//!
//! An error is never a denial. Each reason is logged once until the server answers again, and once in 10 s if it comes and
//! goes: with the server's address (without the password), the server's own text and a remedy.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::{ErrorKind, RedisError};
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::StoreError;

/// Maximum number of reasons remembered as logged; further ones are not logged.
const REASONS_LEN_MAX: usize = 16;
/// Minimum time between two log lines of the same reason, in ms.
const REPEAT_MS_MIN: u64 = 10_000;

/// Log of a server's errors.
pub(crate) struct ErrorLog {
    pub(crate) address: String,
    clock: Arc<dyn Clock>,
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Reasons, with the instant of their last line, and true if the server has answered since.
    logged: HashMap<String, (Timestamp, bool)>,
    /// True if the last line tells that the server answers.
    is_connected: bool,
}

impl ErrorLog {
    pub(crate) fn new(address: String, clock: Arc<dyn Clock>) -> Self {
        Self { address, clock, state: Mutex::default() }
    }

    /// Records that the server answers on a new socket, and logs it unless the last line tells so.
    pub(crate) fn connected(&self) {
        if self.recovered() {
            tracing::info!(store = %self.address, "connected to Redis");
        }
    }

    /// Returns true if the last line does not tell that the server answers.
    fn recovered(&self) -> bool {
        let mut state = self.state.lock();
        state.logged.values_mut().for_each(|(_, is_over)| *is_over = true);
        !std::mem::replace(&mut state.is_connected, true)
    }

    /// Logs and classifies the error of a request that was sent.
    pub(crate) fn request_failed(&self, error: &RedisError) -> StoreError {
        let text = error.to_string();
        let (code, class) = classify(error, &text);
        self.log(code, &text, class)
    }

    /// Logs and classifies the error of an attempt to connect.
    pub(crate) fn connect_failed(&self, error: &RedisError) -> StoreError {
        if error.is_io_error() {
            return self.log("CONNECT", &error.to_string(), StoreError::Unreachable);
        }
        self.request_failed(error)
    }

    /// Logs an error of this class. `code` selects the remedy.
    pub(crate) fn log(&self, code: &str, text: &str, class: StoreError) -> StoreError {
        // Each unreadable counter is a reason of its own: its key is in the text.
        if self.is_first(if code == "UNREADABLE" { text } else { code }) {
            tracing::warn!(store = %self.address, answer = %text, remedy = remedy(code), "{class}");
        }
        class
    }

    fn is_first(&self, reason: &str) -> bool {
        let (now, mut state) = (self.clock.now(), self.state.lock());
        state.logged.retain(|_, (at, is_over)| !*is_over || now.ms_since(*at) < REPEAT_MS_MIN);
        let is_first = state.logged.len() < REASONS_LEN_MAX && !state.logged.contains_key(reason);
        if is_first {
            state.logged.insert(reason.to_owned(), (now, false));
            state.is_connected = false;
        }
        is_first
    }
}

/// Code of an error, and its class.
fn classify<'a>(error: &'a RedisError, text: &str) -> (&'a str, StoreError) {
    if error.is_io_error() || matches!(error.kind(), ErrorKind::Parse | ErrorKind::UnexpectedReturnType) {
        return ("BROKEN", StoreError::AnswerLost);
    }
    // Before version 7 the errors of a script's commands are inside another error's text.
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
        "CONNECT" => "check the address, and that the server runs and accepts connections from this machine",
        "BROKEN" => "none if the server was restarted; a new connection is made",
        "UNREADABLE-ANSWER" => "check that nothing between agent and server changes the answers",
        "OOM" => "raise the server's maxmemory, or give limits a Redis of their own",
        "NOAUTH" | "WRONGPASS" => "put user and password into the address: redis://user:password@host",
        "NOPERM" => "allow this user EVALSHA, EVAL and the commands of the scripts on keys of the prefix",
        "LOADING" => "none: the server is loading its data",
        "BUSY" => "another client's script runs too long; SCRIPT KILL ends it",
        "READONLY" | "MASTERDOWN" => "give the address of the primary",
        "CROSSSLOT" => "start all agents with --redis-slots multi: counters of a call lie in several slots",
        "CLUSTERDOWN" | "MOVED" | "ASK" | "TRYAGAIN" => {
            "give a Redis that is no node of a cluster, or a proxy in front of one with --redis-slots multi"
        }
        "MISCONF" => "repair its snapshots, or set stop-writes-on-bgsave-error no: counters need no persistence",
        "UNREADABLE" | "WRONGTYPE" => {
            "another version of Tollgate or another program wrote this key; delete it, or start all agents with another --redis-prefix"
        }
        _ => "see the server's log",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    struct ManualClock(AtomicU64);

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_ms(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn a_reason_is_logged_once_until_the_server_answers_again_and_once_in_ten_seconds() {
        let clock = Arc::new(ManualClock(AtomicU64::new(0)));
        let log = ErrorLog::new("redis://host".to_owned(), clock.clone());
        assert!(log.recovered() && !log.recovered());
        let first = ["LOADING", "LOADING", "READONLY", "LOADING"].map(|reason| log.is_first(reason));
        assert_eq!(first, [true, false, true, false]);
        clock.0.store(60_000, Ordering::Relaxed);
        assert!(!log.is_first("LOADING"), "the server has not answered since");
        assert!(log.recovered() && log.is_first("LOADING"));
        // It comes and goes.
        for ms in (60_000..70_000).step_by(100) {
            clock.0.store(ms, Ordering::Relaxed);
            assert_eq!((log.recovered(), log.is_first("LOADING")), (ms == 60_000, false));
        }
        clock.0.store(70_000, Ordering::Relaxed);
        assert!(log.is_first("LOADING"));
        let more = (0..1_000).filter(|key| log.is_first(&format!("UNREADABLE: {key}"))).count();
        assert_eq!(more, REASONS_LEN_MAX - 1, "many foreign keys do not fill the log");
    }

    #[test]
    fn errors_of_a_cluster_have_a_remedy_that_works() {
        assert!(remedy("CROSSSLOT").contains("--redis-slots multi"));
        assert!(remedy("MOVED").contains("no node of a cluster"));
    }

    #[test]
    fn a_value_of_another_version_has_a_remedy() {
        assert!(["UNREADABLE", "WRONGTYPE"].iter().all(|code| remedy(code).contains("another version of Tollgate")));
    }

    #[test]
    fn a_request_may_have_run_only_when_the_connection_broke() {
        let class = |error: &RedisError| classify(error, &error.to_string()).1;
        let broken = std::io::Error::from(std::io::ErrorKind::BrokenPipe).into();
        assert_eq!(class(&broken), StoreError::AnswerLost);
        let answer = |text: &str| RedisError::from((ErrorKind::Extension, "answer", text.to_owned()));
        assert_eq!(
            class(&answer("Error running script: OOM command not allowed when used memory > 'maxmemory'")),
            StoreError::Full
        );
        assert_eq!(
            class(&answer("Error running script: READONLY You can't write against a read only replica")),
            StoreError::Refused
        );
    }
}
