//! Requests on a connection, and the errors of their answers.

use std::sync::Arc;

use redis::{Cmd, FromRedisValue, ToRedisArgs};
use tollgate_core::counter::StoreError;

use super::server_connection::RedisConnection;
use super::socket::Socket;
use crate::remedy::OwnKey;
use crate::script::Script;

/// Way of a script to its server.
#[derive(Clone, Copy)]
pub struct ServerWay<'a> {
    /// Socket to the server.
    pub socket: &'a Arc<Socket>,
    /// True if the slot of the keys is on its way to the server.
    pub is_passing: bool,
}

impl RedisConnection {
    /// Runs a script on the current socket.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        self.run_on(&self.socket()?, script, keys, args).await
    }

    /// Runs a script on this socket: requests on one socket run in the order of their first polls.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn run_on<T: FromRedisValue>(
        &self,
        socket: &Arc<Socket>,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        self.run_by(&ServerWay { socket, is_passing: false }, script, keys, args).await
    }

    /// Runs a script by this way, as [`RedisConnection::run_on`].
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn run_by<T: FromRedisValue>(
        &self,
        way: &ServerWay<'_>,
        script: &Script,
        keys: &[impl ToRedisArgs],
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let ServerWay { socket, is_passing } = *way;
        let answer = socket.exchange_script(is_passing, script, keys, args).await;
        answer.map_err(|error| self.failed(socket, &error, None))
    }

    /// Runs a script on a key that holds no counter.
    pub(crate) async fn run_at<T: FromRedisValue>(
        &self,
        key: &OwnKey,
        script: &Script,
        args: &[impl ToRedisArgs],
    ) -> Result<T, StoreError> {
        let socket = self.socket()?;
        let answer = socket.exchange_script(false, script, &[&*key.name], args).await;
        answer.map_err(|error| self.failed(&socket, &error, Some(key)))
    }

    /// Sends a command that needs no script.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn request<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        let socket = self.socket()?;
        socket.exchange(command).await.map_err(|error| self.failed(&socket, &error, None))
    }

    /// Sends a command that needs no script, about a key that holds no counter.
    pub(crate) async fn request_at<T: FromRedisValue>(&self, key: &OwnKey, command: &Cmd) -> Result<T, StoreError> {
        let socket = self.socket()?;
        socket.exchange(command).await.map_err(|error| self.failed(&socket, &error, Some(key)))
    }

    /// The error for an answer to a script that does not have the form of its answers; it is logged.
    pub fn answer_unreadable(&self) -> StoreError {
        self.errors.log("UNREADABLE-ANSWER", "the answer to a script cannot be read", StoreError::AnswerLost)
    }

    /// The error for a foreign value, which has passed the checks of a script; it is logged.
    pub fn value_unreadable(&self, key: &str) -> StoreError {
        self.errors.log("UNREADABLE", &format!("UNREADABLE {key}"), StoreError::Unreadable)
    }

    /// Logs that another digest key holds the region, by the claim under this key.
    pub fn other_digest_key(&self, claim: &str) {
        self.errors.other_digest_key(claim);
    }

    /// The error for a foreign value of the right type under a key that holds no counter; it is logged.
    pub(crate) fn own_value_unreadable(&self, key: &OwnKey) -> StoreError {
        self.errors.foreign_value(key, "a field cannot be read")
    }
}
