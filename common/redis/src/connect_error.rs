//! Errors of attempts to connect: their code, which selects the remedy, and their class.

use std::io;
use std::time::Duration;

use redis::RedisError;
use tollgate_core::counter::StoreError;

use crate::remedy::{classify, is_too_long, is_unreadable};

/// Error of an attempt to connect to one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectError {
    /// Code that selects the remedy.
    pub(crate) code: String,
    pub(crate) class: StoreError,
    /// Text of the server or the system, with the node where an address names several.
    pub(crate) text: String,
}

impl ConnectError {
    /// The server does not serve as it is.
    pub(crate) fn refused(code: &str, text: impl Into<String>) -> Self {
        Self { code: code.to_owned(), class: StoreError::Refused, text: text.into() }
    }

    /// No connection was made.
    pub(crate) fn unreachable(text: impl Into<String>) -> Self {
        Self { code: "CONNECT".to_owned(), class: StoreError::Unreachable, text: text.into() }
    }

    /// No connection was made within this time.
    pub(crate) fn silent(wait: Duration) -> Self {
        Self::unreachable(format!("no answer within {} ms", wait.as_millis()))
    }

    /// Returns the same error of this node.
    pub(crate) fn at(self, node: &str) -> Self {
        Self { text: format!("{node}: {}", self.text), ..self }
    }

    /// Error of the login on a connection that was made.
    pub(crate) fn of_login(error: &RedisError) -> Self {
        let text = error.to_string();
        if is_too_long(error) {
            return Self::refused("TOO-LONG", text);
        }
        if error.is_io_error() {
            return Self { code: "NO-LOGIN".to_owned(), ..Self::unreachable(text) };
        }
        if is_unreadable(error) {
            return Self::refused("NO-REDIS", text);
        }
        let (code, class) = classify(error, &text);
        Self { code: code.to_owned(), class, text: text.clone() }
    }

    /// Takes the other error, unless this one tells an operator more: a server that answers tells more than one that does not.
    pub(crate) fn keep_more_telling(&mut self, other: Self) {
        let rank = |error: &Self| match &*error.code {
            "CONNECT" => 0,
            "READONLY" => 1,
            _ => 2,
        };
        if rank(&other) >= rank(self) {
            *self = other;
        }
    }
}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::unreachable(error.to_string())
    }
}
