//! Records of another writer, who may write to every topic: bytes that no reader decodes, and decodable records that report
//! what cannot be.
//!
//! A forged record is made of an honest one, so that readers would take it for the newest of its writer.

use fastrand::Rng;
use tollgate_bus::Topic;
use tollgate_core::counter::Partition;
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::presence::{Presence, Role};
use tollgate_core::messages::signals::SignalBatch;
use tollgate_wire::Record;

/// Bytes that no reader decodes.
const GARBAGE: [u8; 16] = [0xff; 16];
/// Number of members of one role that are invented at once.
const INVENTED_MEMBERS: u32 = 1_500;
/// Mean number of forgeries of `presence` of which one invents so many members.
const RECORDS_PER_INVENTION: u32 = 20;

/// Returns the records that are appended before an honest one.
pub(super) fn forge(rng: &mut Rng, topic: Topic, partitions: u32, honest: &[u8]) -> Vec<Vec<u8>> {
    if rng.bool() {
        return vec![GARBAGE.to_vec()];
    }
    let forged = match topic {
        Topic::Calls => Batch::decode(honest).map(|batch| vec![calls(rng, batch).encode()]),
        Topic::Signals => SignalBatch::decode(honest).map(|batch| vec![signals(rng, batch).encode()]),
        Topic::Presence => Presence::decode(honest).map(|presence| members(rng, partitions, &presence)),
        Topic::Rules | Topic::Ledger | Topic::Usage | Topic::Rollups | Topic::Live | Topic::Decisions => Ok(Vec::new()),
    };
    forged.unwrap_or_default()
}

fn calls(rng: &mut Rng, mut batch: Batch) -> Batch {
    match rng.u8(0..3) {
        0 => batch.name.sequence += 1 << rng.u32(33..63),
        1 => batch.name.partition += 1,
        _ => batch.counters.iter_mut().for_each(|counter| (counter.generation, counter.quota) = (1 << 60, u64::MAX)),
    }
    // Without counters, no generation is forged.
    if batch.counters.is_empty() {
        batch.name.sequence += 1 << 63;
    }
    batch
}

fn signals(rng: &mut Rng, mut batch: SignalBatch) -> SignalBatch {
    batch.signals.clear();
    match rng.u8(0..4) {
        0 => batch.as_of += 1 << rng.u32(0..63),
        1 => batch.threshold_permille = u32::MAX,
        2 => batch.log += 1_000,
        _ => batch.as_of_appended = batch.as_of_appended.plus_ms(1 << 40),
    }
    batch
}

/// Returns an aggregator that claims to count everything, or many members that were never there.
fn members(rng: &mut Rng, partitions: u32, honest: &Presence) -> Vec<Vec<u8>> {
    let claims: Vec<Partition> = (0..partitions).collect();
    if rng.u32(0..RECORDS_PER_INVENTION) > 0 {
        let liar = Presence {
            id: "liar".into(),
            epoch: rng.u64(..),
            role: Role::Aggregator,
            partitions: claims,
            leaving: false,
            ..honest.clone()
        };
        return vec![liar.encode()];
    }
    let role = if rng.bool() { Role::Agent } else { Role::Aggregator };
    let invented = |number| {
        let id = format!("invented-{number}").into();
        Presence { id, role, partitions: Vec::new(), leaving: false, ..honest.clone() }.encode()
    };
    (0..INVENTED_MEMBERS).map(invented).collect()
}
