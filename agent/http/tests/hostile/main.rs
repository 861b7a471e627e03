//! Hostile requests over HTTP/1: broken heads and bodies, huge and empty fields, slow and silent clients, floods. Each one gets a
//! clear status or a closed connection. It charges nothing that it did not validly ask for, and the agent answers the next client
//! exactly. The memory of the process stays flat, which is why this test has a process of its own.
//!
//! The requests that end by a timeout of the agent are sent together, so that they take no longer than one of them.

mod exchange;
mod heads;
mod bodies;
mod calls;
mod clients;

use futures_util::future::{join, join_all};
use tollgate_servers::resident_bytes;

use crate::exchange::Target;

/// Minimum number of different requests.
const REQUESTS_MIN: usize = 60;
/// Number of times that all requests are sent. Those that a timeout ends are sent in the first and in the last pass.
const PASSES: usize = 5;
/// Pass after which the memory is flat: buffers and arenas have their final sizes.
const WARM_PASS: usize = 2;
/// Maximum growth of the resident memory after that pass, in bytes. The hundreds of connections at once in the last pass use the free
/// parts of the heap in another order than those of the first one, which takes some MB.
const GROWTH_BYTES_MAX: u64 = 8 << 20;

/// Every hostile request has a clear end, nothing is lost, and the memory is flat.
#[tokio::test]
async fn a_hostile_request_has_a_clear_end_and_changes_nothing() {
    let target = Target::start().await;
    let requests = [heads::requests(), bodies::requests(), calls::requests(), clients::requests()].concat();
    assert!(requests.len() >= REQUESTS_MIN, "{} requests", requests.len());
    let (slow, fast): (Vec<_>, Vec<_>) = requests.into_iter().partition(|request| request.is_slow);
    let mut remaining = target.good_call().await;
    let mut resident = 0;
    for pass in 0..PASSES {
        let mut faults = Vec::new();
        for request in &fast {
            faults.extend(target.send(request).await.err());
            let left = target.good_call().await;
            if left != remaining - 1 - request.charged {
                faults.push(format!("{}: {left} units are left after {remaining}", request.name));
            }
            remaining = left;
        }
        faults.extend(clients::hidden_request(&target).await.err());
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
        if [0, PASSES - 1].contains(&pass) {
            let floods = join(clients::half_requests(&target), clients::unread_answers(&target));
            let (ended, (half, unread)) = join(join_all(slow.iter().map(|request| target.send(request))), floods).await;
            let faults: Vec<_> = ended.into_iter().chain([half, unread]).filter_map(Result::err).collect();
            assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
        }
        remaining -= 1;
        assert_eq!(target.good_call().await, remaining, "behind pass {pass}");
        if pass == WARM_PASS {
            resident = resident_bytes();
        }
    }
    let growth = resident_bytes().saturating_sub(resident);
    assert!(growth <= GROWTH_BYTES_MAX, "the memory grew by {growth} bytes over {resident}");
}
