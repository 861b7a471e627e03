//! The wait for an answer until its deadline. An answer that arrived before the timer fired counts, whenever its task runs.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::timeout;

/// Number of turns of the runtime after which an answer that arrived before the timer fired has reached its request.
/// One turn reads the socket, and one hands the answer on.
pub(crate) const TURNS_AFTER_DEADLINE: usize = 3;

/// Returns the answer to a request if it arrives by the deadline. On a busy machine the timer may run before the task
/// that reads the socket.
pub(crate) async fn answer_in_time<T>(
    deadline: Duration,
    mut request: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    if let Ok(answer) = timeout(timer(deadline), request.as_mut()).await {
        return Some(answer);
    }
    for _ in 0..TURNS_AFTER_DEADLINE {
        yield_now().await;
        let look = poll_fn(|context| match request.as_mut().poll(context) {
            Poll::Ready(answer) => Poll::Ready(Some(answer)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(answer) = look.await {
            return Some(answer);
        }
    }
    None
}

/// Polls a future inside a runtime, whose timers it then uses. The caller may run on another executor, or on none of
/// tokio.
pub(crate) async fn inside<T>(runtime: &Handle, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    poll_fn(|context| {
        let _inside = runtime.enter();
        future.as_mut().poll(context)
    })
    .await
}

/// Returns the time of a timer that fires by the deadline: tokio's timers fire up to a millisecond late.
fn timer(deadline: Duration) -> Duration {
    deadline.saturating_sub(Duration::from_millis(1)).max(Duration::from_millis(1))
}
