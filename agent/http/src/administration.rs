//! Requests of operators give way to decisions.
//!
//! A client that sends many requests at once gets several answers in one turn of its connection's task. Hundreds of such clients
//! would let a decision wait for thousands of answers. So each request of an operator gives its turn to all tasks that are ready, and
//! text that takes milliseconds is made on a thread of its own, one at a time.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use tokio::sync::Mutex;
use tokio::task::{JoinError, spawn_blocking, yield_now};

/// Held while a long text is made; clients wait in the order of their requests.
static TURN: Mutex<()> = Mutex::const_new(());

/// Passes on a request after all tasks that are ready.
pub(crate) async fn give_way(request: Request, next: Next) -> Response {
    yield_now().await;
    next.run(request).await
}

/// Runs a step that takes milliseconds, such as the text of all metrics. Its turn ends with the step, also if the client leaves.
///
/// # Errors
/// If the step panics, or the process is about to end.
pub(crate) async fn in_turn<T: Send + 'static>(step: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let turn = TURN.lock().await;
    spawn_blocking(move || {
        let _turn = turn;
        step()
    })
    .await
}
