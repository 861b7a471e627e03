//! Hostile clients of a TLS socket that asks for certificates: broken records and handshakes, wrong and expired certificates, hostile
//! bytes behind a handshake, floods. Each one gets an alert, a status or a closed connection. None of them reaches the server's
//! handler, and the next client is served. The memory of the process stays flat, which is why this test has a process of its own.
//!
//! The clients that end by a timeout of the server connect together, so that they take no longer than one of them.

mod certificates;
mod target;
mod hello;
mod records;
mod handshakes;

use futures_util::future::{join, join_all};
use tollgate_servers::resident_bytes;

use crate::certificates::Issuer;
use crate::target::{HostileClient, Target};

/// Minimum number of different clients.
const CLIENTS_MIN: usize = 60;
/// Number of times that all clients connect. Those that a timeout ends connect in the first and in the last pass.
const PASSES: usize = 5;
/// Pass after which the memory is flat: buffers and arenas have their final sizes.
const WARM_PASS: usize = 2;
/// Maximum growth of the resident memory after that pass, in bytes.
const GROWTH_BYTES_MAX: u64 = 1 << 20;

/// P3, capped: every hostile client has a clear end, none is served, and the memory is flat.
#[tokio::test]
async fn a_hostile_client_has_a_clear_end_and_is_not_served() {
    let (own, other) = (Issuer::of("own"), Issuer::of("other"));
    let target = Target::start(&own).await;
    let clients: Vec<HostileClient> =
        [records::clients(), handshakes::clients(&own, &other)].into_iter().flatten().collect();
    assert!(clients.len() >= CLIENTS_MIN, "{} clients", clients.len());
    let (slow, fast): (Vec<_>, Vec<_>) = clients.into_iter().partition(|client| client.is_slow);
    let (mut served, mut resident) = (0, 0);
    for pass in 0..PASSES {
        let mut faults = Vec::new();
        for client in &fast {
            faults.extend(target.connect_as(client).await.err());
            served += 1;
            assert_eq!(target.good_client().await, served, "requests that were served, behind {}", client.name);
        }
        if [0, PASSES - 1].contains(&pass) {
            let slow = join_all(slow.iter().map(|client| target.connect_as(client)));
            let (ended, flood) = join(slow, records::half_handshakes(&target)).await;
            faults.extend(ended.into_iter().chain([flood]).filter_map(Result::err));
            served += 1;
            assert_eq!(target.good_client().await, served, "requests that were served, behind slow clients");
        }
        assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
        if pass == WARM_PASS {
            resident = resident_bytes();
        }
    }
    let growth = resident_bytes().saturating_sub(resident);
    assert!(growth <= GROWTH_BYTES_MAX, "the memory grew by {growth} bytes over {resident}");
}
