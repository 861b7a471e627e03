//! Primaries of a cluster: the connection to each, by its index, and a slot that it holds.

use std::sync::Arc;

use parking_lot::RwLock;
use tollgate_core::counter::{CounterId, HashSlotId, PrimaryIndex, StoreError};

use super::topology::Topology;
use crate::address::HostPort;
use crate::connection::{MemberAddress, RedisConnection};

/// Primaries of a cluster.
#[derive(Default)]
pub(super) struct ClusterMembers(RwLock<Vec<ClusterMember>>);

/// Primary, whose address changes when a replica takes over.
struct ClusterMember {
    address: Arc<MemberAddress>,
    connection: Arc<RedisConnection>,
    /// Name of a slot that it holds, for keys of its own.
    tag: Option<HashSlotId>,
}

impl ClusterMembers {
    pub(super) fn connections(&self) -> Vec<Arc<RedisConnection>> {
        self.0.read().iter().map(|member| member.connection.clone()).collect()
    }

    /// Returns the connections to the primaries that have slots.
    pub(super) fn serving(&self) -> Vec<Arc<RedisConnection>> {
        let members = self.0.read();
        members.iter().filter(|member| member.tag.is_some()).map(|member| member.connection.clone()).collect()
    }

    pub(super) fn connection(&self, primary: PrimaryIndex) -> Result<Arc<RedisConnection>, StoreError> {
        let members = self.0.read();
        members.get(primary.index()).map(|member| member.connection.clone()).ok_or(StoreError::Unreachable)
    }

    /// Returns the connection to a primary, and the name of a slot that it holds.
    pub(super) fn own_slot(&self, primary: PrimaryIndex) -> Result<(Arc<RedisConnection>, HashSlotId), StoreError> {
        let members = self.0.read();
        let member = members.get(primary.index()).ok_or(StoreError::Unreachable)?;
        Ok((member.connection.clone(), member.tag.ok_or(StoreError::Unreachable)?))
    }

    /// Returns the connections to primaries that are connected, with their addresses.
    pub(super) fn connected(&self) -> Vec<(HostPort, Arc<RedisConnection>)> {
        let members = self.0.read();
        let connected = members.iter().filter(|member| member.connection.node().is_some());
        connected.filter_map(|member| Some((member.address.get()?, member.connection.clone()))).collect()
    }

    /// Returns true if a primary with slots has no connection.
    pub(super) fn lack_connection(&self) -> bool {
        let is_lost = |member: &ClusterMember| member.tag.is_some() && member.connection.node().is_none();
        self.0.read().iter().any(is_lost)
    }

    /// Follows a topology of the cluster at this address: new primaries get connections, and a node that has been replaced is left.
    pub(super) fn follow(
        &self,
        topology: &Topology,
        store: &str,
        connect: impl Fn(Arc<MemberAddress>) -> RedisConnection,
    ) {
        let mut members = self.0.write();
        for (index, shard) in topology.shards.iter().enumerate() {
            if index == members.len() {
                let address = Arc::<MemberAddress>::default();
                let connection = Arc::new(connect(address.clone()));
                members.push(ClusterMember { address, connection, tag: None });
            }
            let member = &mut members[index];
            if member.address.set(&shard.address) {
                tracing::info!(%store, new = %shard.address, "another node is the primary of slots");
                member.connection.leave_server();
            }
            let primary = PrimaryIndex::new(index);
            let holds = |tag: &HashSlotId| topology.owner(tag.cluster_slot()) == primary;
            if !member.tag.as_ref().is_some_and(holds) {
                let mut tags = (0..).map(|number| HashSlotId::of(CounterId::from_u128(number)));
                member.tag = topology.owners.contains(&primary).then(|| tags.find(holds)).flatten();
            }
        }
    }
}
