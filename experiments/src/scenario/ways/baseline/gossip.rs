//! Rounds of gossip: each 100 ms ± 30, a node sends what it has to tell to three others, chosen at random.
//!
//! Source 002, "Gossip-Based Rate Synchronization" and "Failure Modes".

use crate::scenario::ways::network::{Cause, PeerNetwork};

const INTERVAL_MS: u64 = 100;
const JITTER_MS: u64 = 30;
const FAN_OUT: usize = 3;

/// Starts the rounds of all nodes.
pub(super) fn start<M: Clone>(net: &mut PeerNetwork<M>) {
    for node in 0..net.nodes {
        let first_ms = net.rng.u64(0..INTERVAL_MS);
        net.wake_after(first_ms, node);
    }
}

/// Sends a message with so many counts in a round of a node, and sets the timer of its next one.
pub(super) fn round<M: Clone>(net: &mut PeerNetwork<M>, node: usize, counts: usize, message: &M) {
    let mut peers: Vec<usize> = Vec::new();
    while peers.len() < FAN_OUT.min(net.nodes - 1) {
        let peer = net.rng.usize(0..net.nodes);
        if peer != node && !peers.contains(&peer) {
            peers.push(peer);
        }
    }
    for peer in peers {
        if counts > 0 {
            net.send(Cause::Timer, peer, counts as u64, message.clone());
        } else {
            net.enter(Cause::Timer, 1, 0);
        }
    }
    let next_ms = net.rng.u64(INTERVAL_MS - JITTER_MS..=INTERVAL_MS + JITTER_MS);
    net.wake_after(next_ms, node);
}
