//! Topology of a cluster: its primaries with their replicas, and the slots of each, as a node tells them (`CLUSTER SLOTS`).
//!
//! A primary keeps its index as long as one of its nodes is known: so a replica that takes over has the index of its primary. A node
//! that changes sides has the index of its new shard, because primaries are told first.
//! A node may be cut off and tell an old topology. Of several answers, the one of the latest epoch counts.

use std::collections::{HashMap, HashSet};

use redis::Value;
use tollgate_core::counter::{CLUSTER_SLOTS, PrimaryIndex};

use crate::address::HostPort;

/// Slots, and the nodes that serve them.
#[derive(Clone, Debug, Default)]
pub(super) struct Topology {
    /// Epoch of the cluster, which each change raises.
    pub(super) epoch: u64,
    pub(super) shards: Vec<Shard>,
    /// Owner of each slot; none if nobody serves it.
    pub(super) owners: Vec<Option<PrimaryIndex>>,
}

/// Primary with its replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    pub(super) address: HostPort,
    /// Identifier of the primary; none if only its address is known.
    primary: Option<String>,
    /// Identifiers of the primary and its replicas.
    nodes: HashSet<String>,
}

/// Nodes of a range of slots, as a node tells them.
struct Range {
    first: u16,
    last: u16,
    shard: Shard,
}

impl Topology {
    /// Returns the topology in the answers of a node at this address to `CLUSTER SLOTS` and `CLUSTER INFO`; the reason if it is none.
    pub(super) fn read(&self, asked: &HostPort, slots: &Value, info: &Value) -> Result<Self, String> {
        let Value::Array(ranges) = slots else { return Err("CLUSTER SLOTS has no list".to_owned()) };
        let ranges: Option<Vec<Range>> = ranges.iter().map(|range| Range::read(asked, range)).collect();
        let ranges = ranges.ok_or("CLUSTER SLOTS has another form than in Redis 4 to 8")?;
        if ranges.is_empty() {
            return Err("no slot is assigned to a node".to_owned());
        }
        let mut topology = Self { epoch: epoch(info), shards: self.shards.clone(), owners: Vec::new() };
        topology.owners.resize(CLUSTER_SLOTS.into(), None);
        let indexes = self.indexes(&ranges);
        let told: HashSet<String> = ranges.iter().flat_map(|range| &range.shard.nodes).cloned().collect();
        for Range { first, last, shard } in ranges {
            let index = indexes[&shard.primary];
            let Some(primary) = PrimaryIndex::new(index) else { continue };
            match topology.shards.get_mut(index) {
                None => topology.shards.push(shard),
                Some(known) => {
                    // A replica that is down is not told.
                    let silent = known.nodes.drain().filter(|node| !told.contains(node));
                    let nodes = shard.nodes.iter().cloned().chain(silent).collect();
                    *known = Shard { nodes, ..shard };
                }
            }
            for slot in first..=last.min(CLUSTER_SLOTS - 1) {
                topology.owners[usize::from(slot)] = Some(primary);
            }
        }
        Ok(topology)
    }

    /// Returns the index of each primary in these ranges, by its identifier. A shard is the known one with the same primary, else one
    /// with a common node, else the one at the same address, else a new one.
    fn indexes(&self, ranges: &[Range]) -> HashMap<Option<String>, usize> {
        let mut indexes = HashMap::new();
        let mut taken = HashSet::new();
        let is_same: [fn(&Shard, &Shard) -> bool; 3] = [
            |known, told| known.primary == told.primary,
            |known, told| !known.nodes.is_disjoint(&told.nodes),
            |known, told| known.address == told.address,
        ];
        for is_same in is_same {
            for Range { shard, .. } in ranges {
                if indexes.contains_key(&shard.primary) {
                    continue;
                }
                let is_free = |index: &usize| !taken.contains(index) && is_same(&self.shards[*index], shard);
                if let Some(index) = (0..self.shards.len()).find(is_free) {
                    taken.insert(index);
                    indexes.insert(shard.primary.clone(), index);
                }
            }
        }
        let mut next = self.shards.len();
        for Range { shard, .. } in ranges {
            indexes.entry(shard.primary.clone()).or_insert_with(|| {
                next += 1;
                next - 1
            });
        }
        indexes
    }

    /// Returns the topology after a node has said that a slot is at this address now, where a new node may have joined.
    pub(super) fn with_moved(&self, slot: u16, address: &HostPort) -> Self {
        let mut topology = self.with_node(address);
        if let (Some(primary), Some(owner)) = (topology.at(address), topology.owners.get_mut(usize::from(slot))) {
            *owner = Some(primary);
        }
        topology
    }

    /// Returns the topology with a primary at this address.
    pub(super) fn with_node(&self, address: &HostPort) -> Self {
        let mut topology = self.clone();
        if topology.at(address).is_none() {
            topology.shards.push(Shard { address: address.clone(), primary: None, nodes: HashSet::new() });
        }
        topology
    }

    /// Returns the primary at an address.
    pub(super) fn at(&self, address: &HostPort) -> Option<PrimaryIndex> {
        self.shards.iter().position(|shard| shard.address == *address).and_then(PrimaryIndex::new)
    }

    /// Returns the primary that serves a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<PrimaryIndex> {
        self.owners.get(usize::from(slot)).copied().flatten()
    }
}

impl Range {
    fn read(asked: &HostPort, range: &Value) -> Option<Self> {
        let Value::Array(parts) = range else { return None };
        let [first, last, nodes @ ..] = &parts[..] else { return None };
        let nodes: Vec<(HostPort, String)> = nodes.iter().map(|node| node_of(asked, node)).collect::<Option<_>>()?;
        let address = nodes.first()?.0.clone();
        let primary = nodes.first().map(|(_, id)| id.clone());
        let nodes = nodes.into_iter().map(|(_, id)| id).collect();
        Some(Self { first: number(first)?, last: number(last)?, shard: Shard { address, primary, nodes } })
    }
}

/// Returns address and identifier of a node. A node that does not know its own address is the one that was asked.
fn node_of(asked: &HostPort, node: &Value) -> Option<(HostPort, String)> {
    let Value::Array(parts) = node else { return None };
    let [host, port, id, ..] = &parts[..] else { return None };
    let host = text(host).filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.host.clone());
    Some((HostPort { host, port: number(port)? }, text(id)?))
}

fn number(value: &Value) -> Option<u16> {
    if let Value::Int(number) = value { u16::try_from(*number).ok() } else { None }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Returns the epoch in the answer to `CLUSTER INFO`; 0 if it has none.
fn epoch(info: &Value) -> u64 {
    let info = text(info).unwrap_or_default();
    let epoch = info.lines().find_map(|line| line.trim_end().strip_prefix("cluster_current_epoch:")?.parse().ok());
    epoch.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn node(host: &str, port: i64, id: &str) -> Value {
        Value::Array(vec![bulk(host), Value::Int(port), bulk(id), Value::Array(Vec::new())])
    }

    fn range(first: i64, last: i64, nodes: &[Value]) -> Value {
        Value::Array([Value::Int(first), Value::Int(last)].into_iter().chain(nodes.iter().cloned()).collect())
    }

    /// A replica that takes over has the index of its primary, and a node that does not know its address is the one that was asked.
    #[test]
    fn a_primary_keeps_its_index_when_its_replica_takes_over() {
        let asked = HostPort { host: "h".to_owned(), port: 1 };
        let info = bulk("cluster_state:ok\r\ncluster_current_epoch:7\r\n");
        let slots = |first: &[Value], second: &[Value]| {
            Value::Array(vec![range(0, 8_191, first), range(8_192, 16_383, second)])
        };
        let before = slots(&[node("", 1, "a"), node("", 2, "b")], &[node("k", 3, "c")]);
        let before = Topology::default().read(&asked, &before, &info).expect("a topology");
        assert_eq!((before.epoch, before.shards[0].address.to_string().as_str()), (7, "h:1"));
        let after = slots(&[node("k", 3, "c")], &[node("k", 2, "b"), node("k", 9, "d")]);
        let after = before.read(&asked, &after, &info).expect("a topology");
        let addresses: Vec<_> = after.shards.iter().map(|shard| shard.address.to_string()).collect();
        assert_eq!(addresses, ["k:2", "k:3"]);
        assert_eq!((after.owner(0), after.owner(16_383)), (PrimaryIndex::new(1), PrimaryIndex::new(0)));
        // A node that joins another shard as its replica, while its own one has only the other node left, stays there.
        let sides = slots(&[node("k", 2, "b")], &[node("k", 3, "c"), node("", 1, "a")]);
        let changed = before.read(&asked, &sides, &info).expect("a topology");
        assert_eq!((changed.owner(0), changed.owner(16_383)), (PrimaryIndex::new(0), PrimaryIndex::new(1)));
        // A node of which only the address is known keeps its index, once it is told.
        let joined = HostPort { host: "k".to_owned(), port: 9 };
        let moved = after.with_moved(0, &joined);
        assert_eq!(moved.owner(0), PrimaryIndex::new(2));
        let told = slots(&[node("k", 9, "n")], &[node("k", 2, "b"), node("k", 3, "c")]);
        let told = moved.read(&asked, &told, &info).expect("a topology");
        assert_eq!((told.owner(0), told.owner(16_383)), (PrimaryIndex::new(2), PrimaryIndex::new(0)));
        assert!(before.read(&asked, &Value::Array(Vec::new()), &info).is_err_and(|why| why.contains("no slot")));
        assert!(before.read(&asked, &Value::Int(1), &info).is_err());
    }
}
