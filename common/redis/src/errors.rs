//! Errors of requests to Redis in the log: whether a request may have run, and the remedy for the operator
//! ([`crate::remedy`]).
//!
//! An error is never a denial. Each reason is logged once until the server answers again, and once in 10 s if it comes and
//! goes: with the server's address (without the password), the server's own text and a remedy.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use redis::RedisError;
use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::StoreError;
use tollgate_core::one_line::{excerpt, one_line};

use crate::connect_error::ConnectError;
use crate::remedy::{OwnKey, classify, is_unreadable, remedy};

/// Maximum number of reasons remembered as logged; further ones are not logged.
const REASONS_LEN_MAX: usize = 16;
/// Code of the answer to a process with another digest key than that of the region.
const OTHER_KEY: &str = "OTHERKEY";
/// Minimum time between two log lines of the same reason, in ms.
const REPEAT_MS_MIN: u64 = 10_000;
/// Time after which an error is over, in ms: a server that does not serve is asked twice a second.
const TROUBLE_MS: u64 = 3_000;

pub(crate) struct ErrorLog {
    pub(crate) address: String,
    /// Place from which the password came; none without a password.
    password_from: Option<String>,
    clock: Arc<dyn Clock>,
    state: Mutex<LogState>,
}

#[derive(Debug, Default)]
struct LogState {
    /// Reasons, with the instant of their last line, and true if the server has answered since.
    logged: HashMap<String, (Timestamp, bool)>,
    /// Server that answers, if the last line tells so.
    connected_to: Option<String>,
    /// The last error that concerned more than a counter, and its instant.
    trouble: Option<(Timestamp, String)>,
}

impl ErrorLog {
    pub(crate) fn new(address: String, clock: Arc<dyn Clock>) -> Self {
        Self { address, password_from: None, clock, state: Mutex::default() }
    }

    /// Names the place of the password in the remedy of a refused login.
    pub(crate) fn with_password_from(self, place: Option<String>) -> Self {
        Self { password_from: place, ..self }
    }

    fn remedy(&self, code: &str) -> Cow<'static, str> {
        match (&self.password_from, code) {
            (Some(place), "WRONGPASS" | "NOAUTH") => Cow::Owned(format!(
                "the server refuses the password or the user, which came from {place}; correct them there, or leave them out if the server has none"
            )),
            _ => Cow::Borrowed(remedy(code)),
        }
    }

    /// Records that a server answers on a new socket, and logs it unless the last line tells so.
    pub(crate) fn connected(&self, node: &str) {
        if self.recovered(node) {
            tracing::info!(store = %self.address, node, "connected to Redis");
        }
    }

    /// Records that the reasons of before are over.
    pub(crate) fn is_over(&self) {
        let mut state = self.state.lock();
        state.logged.values_mut().for_each(|(_, is_over)| *is_over = true);
        state.trouble = None;
    }

    /// Returns true if the last line does not tell that this server answers.
    fn recovered(&self, node: &str) -> bool {
        let mut state = self.state.lock();
        state.logged.values_mut().for_each(|(_, is_over)| *is_over = true);
        state.trouble = None;
        state.connected_to.replace(node.to_owned()).is_none_or(|told| told != node)
    }

    /// Returns why the server does not serve, with the remedy: its last error, if it has just come.
    pub(crate) fn trouble(&self) -> Option<String> {
        let (now, state) = (self.clock.now(), self.state.lock());
        let (at, why) = state.trouble.as_ref()?;
        (now.ms_since(*at) < TROUBLE_MS).then(|| why.clone())
    }

    /// Logs and classifies the error of a request that was sent. A value of another type is a counter's, unless the
    /// request is about an own key.
    pub(crate) fn request_failed(&self, error: &RedisError, own_key: Option<&OwnKey>) -> StoreError {
        let text = error.to_string();
        let (code, class) = classify(error, &text);
        match own_key {
            _ if code == OTHER_KEY => self.other_digest_key(text.rsplit(' ').next().unwrap_or_default()),
            Some(key) if is_unreadable(error) || text.contains("WRONGTYPE") => self.foreign_value(key, &text),
            _ => self.log(code, &text, class),
        }
    }

    /// Logs the error of an attempt to connect, and returns its class.
    pub(crate) fn connect_failed(&self, error: &ConnectError) -> StoreError {
        self.log(&error.code, &error.text, error.class)
    }

    /// Logs that Sentinels do not answer, while the primary does.
    pub(crate) fn sentinels_failed(&self, error: &ConnectError) {
        const SAID: &str = "no Sentinel answers, so a fail-over is not noticed";
        let (answer, remedy) = (excerpt(&error.text), remedy(&error.code));
        self.state.lock().trouble = Some((self.clock.now(), format!("{SAID}: {answer}; remedy: {remedy}")));
        if self.is_first(&format!("sentinels: {}", error.code)) {
            tracing::warn!(store = %self.address, %answer, remedy, "{SAID}");
        }
    }

    /// `code` selects the remedy.
    pub(crate) fn log(&self, code: &str, text: &str, class: StoreError) -> StoreError {
        // Each unreadable counter is a reason of its own: its key is in the text.
        let answer = excerpt(text.trim_end());
        if !class.is_of_counter() || class == StoreError::Full {
            let why = format!("{class} ({}): {answer}; remedy: {}", excerpt(code), self.remedy(code));
            self.state.lock().trouble = Some((self.clock.now(), why));
        }
        if self.is_first(if code == "UNREADABLE" { &answer } else { code }) {
            let said = match code {
                "NO-REDIS" => "this is not the address of a Redis".to_owned(),
                "FILE" => "a file for the connection to the store cannot be used".to_owned(),
                _ => class.to_string(),
            };
            tracing::warn!(store = %self.address, %answer, remedy = &*self.remedy(code), "{said}");
        }
        class
    }

    /// Logs that another program has written under a key of Tollgate.
    pub(crate) fn foreign_value(&self, key: &OwnKey, text: &str) -> StoreError {
        let OwnKey { name, after_deletion } = key;
        if self.is_first(name) {
            let (store, answer) = (&self.address, excerpt(text.trim_end()));
            let name = one_line(name);
            let remedy = format!("DEL {name}; {after_deletion}; let only Tollgate write to keys of this prefix");
            tracing::warn!(%store, %answer, remedy, "the value under the key {name} was not written by Tollgate and cannot be used");
        }
        StoreError::Unreadable
    }

    /// Logs that the region is held by another digest key than that of this process.
    pub(crate) fn other_digest_key(&self, name: &str) -> StoreError {
        if self.is_first(OTHER_KEY) {
            let (store, name) = (&self.address, excerpt(name));
            let remedy = format!(
                "give all agents and aggregators of all regions the same --digest-key-file; after a change of the key everywhere, wait for three windows of the global rules, or DEL {name} and let a caller spend a quota twice in a window"
            );
            tracing::error!(%store, remedy, "another digest key holds this region, so this process takes no part in rules with `scope: global`: an agent denies their calls, and an aggregator writes no limits");
        }
        StoreError::Refused
    }

    fn is_first(&self, reason: &str) -> bool {
        let (now, mut state) = (self.clock.now(), self.state.lock());
        state.logged.retain(|_, (at, is_over)| !*is_over || now.ms_since(*at) < REPEAT_MS_MIN);
        let is_first = state.logged.len() < REASONS_LEN_MAX && !state.logged.contains_key(reason);
        if is_first {
            state.logged.insert(reason.to_owned(), (now, false));
            state.connected_to = None;
        }
        is_first
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
    fn the_remedy_of_a_refused_password_names_the_place_that_it_came_from() {
        let clock = Arc::new(ManualClock(AtomicU64::new(1)));
        let log = ErrorLog::new("redis://host".to_owned(), clock);
        assert!(log.remedy("WRONGPASS").contains("--redis-password-file FILE"));
        let log = log.with_password_from(Some("c.txt".to_owned()));
        assert!(log.remedy("WRONGPASS").contains("refuses the password or the user, which came from c.txt"));
        assert_eq!(log.remedy("OOM"), remedy("OOM"));
    }

    #[test]
    fn an_error_is_told_with_its_class_and_remedy_until_it_is_over() {
        let clock = Arc::new(ManualClock(AtomicU64::new(5_000)));
        let log = ErrorLog::new("redis://host".to_owned(), clock.clone());
        assert_eq!(log.trouble(), None);
        log.log("UNREADABLE", "UNREADABLE key", StoreError::Unreadable);
        assert_eq!(log.trouble(), None, "of a counter");
        for (code, class, said) in [
            (
                "READONLY",
                StoreError::Refused,
                "the store refuses to answer (READONLY): it said so; remedy: none after a fail-over",
            ),
            ("OOM", StoreError::Full, "the store is full (OOM): it said so; remedy: raise the server's maxmemory"),
            (
                "CONNECT",
                StoreError::Unreachable,
                "the store cannot be reached (CONNECT): it said so; remedy: check the address",
            ),
        ] {
            log.log(code, "it said so", class);
            assert!(log.trouble().is_some_and(|why| why.starts_with(said)), "{:?}", log.trouble());
        }
        clock.0.store(5_000 + TROUBLE_MS, Ordering::Relaxed);
        assert_eq!(log.trouble(), None, "it is over");
    }

    #[test]
    fn a_reason_is_logged_once_until_the_server_answers_again_and_once_in_ten_seconds() {
        let clock = Arc::new(ManualClock(AtomicU64::new(0)));
        let log = ErrorLog::new("redis://host".to_owned(), clock.clone());
        assert!(log.recovered("a") && !log.recovered("a") && log.recovered("b"));
        let first = ["LOADING", "LOADING", "READONLY", "LOADING"].map(|reason| log.is_first(reason));
        assert_eq!(first, [true, false, true, false]);
        clock.0.store(60_000, Ordering::Relaxed);
        assert!(!log.is_first("LOADING"), "the server has not answered since");
        assert!(log.recovered("b") && log.is_first("LOADING"));
        // It comes and goes.
        for ms in (60_000..70_000).step_by(100) {
            clock.0.store(ms, Ordering::Relaxed);
            assert_eq!((log.recovered("b"), log.is_first("LOADING")), (ms == 60_000, false));
        }
        clock.0.store(70_000, Ordering::Relaxed);
        assert!(log.is_first("LOADING"));
        let more = (0..1_000).filter(|key| log.is_first(&format!("UNREADABLE: {key}"))).count();
        assert_eq!(more, REASONS_LEN_MAX - 1, "many foreign keys do not fill the log");
    }
}
