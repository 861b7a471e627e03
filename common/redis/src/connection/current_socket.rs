//! The current socket of a connection, and the wait for the end of an attempt to make one.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use tokio::sync::watch;
use tokio::time::timeout;
use tollgate_core::counter::StoreError;

use super::socket::Socket;

/// Current socket of a connection.
pub(super) struct CurrentSocket {
    socket: ArcSwapOption<Socket>,
    /// True before the first attempt to connect, while one is in progress, and from the loss of a socket until the next one ends.
    is_connecting: watch::Sender<bool>,
}

impl Default for CurrentSocket {
    fn default() -> Self {
        Self { socket: ArcSwapOption::empty(), is_connecting: watch::Sender::new(true) }
    }
}

impl CurrentSocket {
    pub(super) fn get(&self) -> Option<Arc<Socket>> {
        self.socket.load_full()
    }

    /// Returns the socket, if there is one with room for a request.
    pub(super) fn with_room(&self) -> Result<Arc<Socket>, StoreError> {
        let socket = self.get().ok_or(StoreError::Unreachable)?;
        if socket.is_full() { Err(StoreError::Busy) } else { Ok(socket) }
    }

    /// Returns the socket, as [`CurrentSocket::with_room`]. If there is none yet, the attempt in progress or the first one is awaited.
    pub(super) async fn awaited(&self, wait: Duration) -> Result<Arc<Socket>, StoreError> {
        match self.with_room() {
            Err(StoreError::Unreachable) if *self.is_connecting.borrow() => {
                self.attempt_ends(wait).await;
                self.with_room()
            }
            socket => socket,
        }
    }

    /// Waits for the end of the attempt in progress.
    pub(super) async fn attempt_ends(&self, wait: Duration) {
        let mut is_connecting = self.is_connecting.subscribe();
        let _ = timeout(wait, is_connecting.wait_for(|is_connecting| !is_connecting)).await;
    }

    /// Notes whether callers should wait for an attempt.
    pub(super) fn set_connecting(&self, is_connecting: bool) {
        self.is_connecting.send_replace(is_connecting);
    }

    pub(super) fn set(&self, socket: Arc<Socket>) {
        self.socket.store(Some(socket));
    }

    /// Returns true if this is the current socket.
    pub(super) fn is(&self, socket: &Arc<Socket>) -> bool {
        self.socket.load().as_ref().is_some_and(|current| Arc::ptr_eq(current, socket))
    }

    /// Gives the socket up, if it is the current one; returns true then. Requests in flight keep it.
    pub(super) fn take_away(&self, socket: &Arc<Socket>) -> bool {
        let current = self.socket.compare_and_swap(&Some(socket.clone()), None);
        current.as_ref().is_some_and(|current| Arc::ptr_eq(current, socket))
    }
}
