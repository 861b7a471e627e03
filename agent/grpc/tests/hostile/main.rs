//! Hostile requests over gRPC, to the rate limit service and to the external authorization of Envoy: broken frames of HTTP/2, broken
//! messages, huge and empty fields, floods of streams, requests that never end. Each one gets a clear status or a closed connection.
//! It charges nothing that it did not validly ask for, and the agent answers the next client exactly. The memory of the process stays
//! flat, which is why this test has a process of its own.
//!
//! The requests that end by a timeout of the agent are sent together, so that they take no longer than one of them.

mod wire;
mod requests;
mod raw;
mod target;
mod frames;
mod framing;
mod messages;

use futures_util::future::{join, join_all};
use tollgate_servers::resident_bytes;

use crate::requests::{HostileFrames, HostileRequest, Service};
use crate::target::Target;

/// Minimum number of different requests to each service.
const REQUESTS_MIN: usize = 60;
/// Number of times that all requests are sent. Those that a timeout ends are sent in the first and in the last pass.
const PASSES: usize = 5;
/// Pass after which the memory is flat: buffers and arenas have their final sizes.
const WARM_PASS: usize = 2;
/// Maximum growth of the resident memory after that pass, in bytes.
const GROWTH_BYTES_MAX: u64 = 1 << 20;

/// Every hostile request has a clear end, nothing is lost, and the memory is flat.
#[tokio::test]
async fn a_hostile_request_has_a_clear_end_and_changes_nothing() {
    let target = Target::start().await;
    let tables = [Service::RateLimit, Service::ExternalAuth].map(Table::of);
    let mut resident = 0;
    for pass in 0..PASSES {
        for table in &tables {
            table.send_fast(&target).await;
        }
        if [0, PASSES - 1].contains(&pass) {
            let remaining = target.good_call(Service::RateLimit).await;
            let ended = join_all(tables.iter().map(|table| table.send_slow(&target))).await;
            let faults: Vec<String> = ended.into_iter().flatten().collect();
            assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
            assert_eq!(target.good_call(Service::RateLimit).await, remaining - 1, "units that are left");
        }
        if pass == WARM_PASS {
            resident = resident_bytes();
        }
    }
    let growth = resident_bytes().saturating_sub(resident);
    assert!(growth <= GROWTH_BYTES_MAX, "the memory grew by {growth} bytes over {resident}");
}

/// All hostile requests to one service.
struct Table {
    service: Service,
    requests: Vec<HostileRequest>,
    connections: Vec<HostileFrames>,
}

impl Table {
    fn of(service: Service) -> Self {
        let requests = [framing::requests(service), messages::requests(service)].concat();
        let connections = frames::connections(service);
        assert!(requests.len() >= REQUESTS_MIN && connections.len() >= REQUESTS_MIN);
        Self { service, requests, connections }
    }

    /// Sends one request after the other. Behind each one, a good call has exactly the units that are left.
    async fn send_fast(&self, target: &Target) {
        let mut faults = Vec::new();
        let mut remaining = target.good_call(self.service).await;
        let mut check = async |name: &str, ended: Result<(), String>, charged: u64| {
            faults.extend(ended.err());
            let left = target.good_call(self.service).await;
            if left != remaining - 1 - charged {
                faults.push(format!("{name}: {left} units are left after {remaining}"));
            }
            remaining = left;
        };
        for request in self.requests.iter().filter(|request| !request.is_slow) {
            check(request.name, target.send(request).await, request.charged).await;
        }
        for connection in self.connections.iter().filter(|connection| !connection.is_slow) {
            check(connection.name, target.send_frames(connection).await, 0).await;
        }
        assert!(faults.is_empty(), "{} faults of {:?}:\n{}", faults.len(), self.service, faults.join("\n"));
    }

    /// Sends all requests that end by a timeout. Returns the faults.
    async fn send_slow(&self, target: &Target) -> Vec<String> {
        let requests = self.requests.iter().filter(|request| request.is_slow);
        let connections = self.connections.iter().filter(|connection| connection.is_slow);
        let requests = join_all(requests.map(|request| target.send(request)));
        let connections = join_all(connections.map(|connection| target.send_frames(connection)));
        let (of_requests, of_connections) = join(requests, connections).await;
        let faults = of_requests.into_iter().chain(of_connections).filter_map(Result::err);
        faults.map(|fault| format!("{:?}: {fault}", self.service)).collect()
    }
}
