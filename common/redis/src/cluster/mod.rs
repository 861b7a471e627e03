//! A Redis Cluster: its topology, and a connection to each of its primaries.
//!
//! Charges are not redirected here: a node that does not hold a slot has charged nothing, and the engine of the agent decides, by the
//! clock of the other primary, if the time is left to ask that one. `redis`'s own client for clusters would send a command again after
//! a lost connection, and a charge must not be sent twice. The topology is asked for each two seconds, and at once when a node
//! sends a request elsewhere or does not answer.

mod topology;
mod members;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use redis::{Cmd, Value};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tollgate_core::clock::{Clock, Stopwatch};
use tollgate_core::counter::{HashSlotId, PrimaryIndex, StoreError};

use crate::address::{HostPort, RedisAddressError, RedisServers};
use crate::connect_error::ConnectError;
use crate::connection::{Dialer, MemberAddress, Redirects, RedisConnection, ask_nodes};
use crate::errors::ErrorLog;
use crate::older_answers::OlderAnswers;
use crate::script::Script;
use crate::settings::{RedisAccess, RedisSettings};
use members::ClusterMembers;
use topology::Topology;

/// Interval at which the topology is asked for while all is well, and while a node does not serve as was told.
const TOPOLOGY_INTERVAL: Duration = Duration::from_secs(2);
const TOPOLOGY_RETRY: Duration = Duration::from_millis(100);
/// Maximum number of nodes that are asked for the topology at once, and the time for their answers.
const ASKED_LEN_MAX: usize = 3;
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// Listener that is told the primary of each slot, in their order; none for a slot that nobody serves.
pub type TopologyListener = Box<dyn Fn(&[Option<PrimaryIndex>]) + Send + Sync>;

/// Maker of the script that pings a primary.
pub(crate) type PingMaker = fn() -> Script;

/// Redis Cluster.
pub struct Cluster {
    own: Weak<Cluster>,
    access: Arc<RedisAccess>,
    dialer: Dialer,
    clock: Arc<dyn Clock>,
    ping: PingMaker,
    errors: ErrorLog,
    topology: ArcSwap<Topology>,
    members: ClusterMembers,
    listener: OnceLock<TopologyListener>,
    /// Number of topologies that were read; none before the task that reads them runs.
    reads: OnceLock<watch::Receiver<u64>>,
    is_outdated: Notify,
    /// Belief in topologies that are older than the known one, and the time since the beginning by which it is judged.
    older: Mutex<OlderAnswers>,
    age: Stopwatch,
    /// Order of the changes of the topology.
    changes: Mutex<()>,
}

impl Cluster {
    /// A cluster at this address, whose primaries are pinged by this script.
    ///
    /// # Errors
    /// When the address is not that of a cluster, or a file cannot be used.
    pub fn new(
        settings: &RedisSettings,
        clock: Arc<dyn Clock>,
        ping: fn() -> Script,
    ) -> Result<Arc<Self>, RedisAddressError> {
        let access = Arc::new(settings.checked_access()?);
        let errors = ErrorLog::new(access.address.to_string(), clock.clone());
        let errors = errors.with_password_from(access.password_from.clone());
        Ok(Arc::new_cyclic(|own| Self {
            own: own.clone(),
            dialer: Dialer::new(access.clone()),
            access,
            clock,
            ping,
            errors,
            topology: ArcSwap::default(),
            members: ClusterMembers::default(),
            listener: OnceLock::new(),
            reads: OnceLock::new(),
            is_outdated: Notify::new(),
            older: Mutex::default(),
            age: Stopwatch::start(),
            changes: Mutex::new(()),
        }))
    }

    /// Address of the cluster, without the password.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.errors.address
    }

    /// Returns why the cluster cannot be used, if no node tells its topology.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        self.errors.trouble()
    }

    /// Tells a listener the primary of each slot, whenever it changes.
    pub fn tell_slots(&self, listener: TopologyListener) {
        let _order = self.changes.lock();
        let topology = self.topology.load();
        if !topology.owners.is_empty() {
            listener(&topology.owners);
        }
        let _ = self.listener.set(listener);
    }

    /// Returns the connections to the primaries that have slots.
    #[must_use]
    pub fn serving(&self) -> Vec<Arc<RedisConnection>> {
        self.members.serving()
    }

    /// Returns the connections to the primaries, in the order of their indexes.
    #[must_use]
    pub fn connections(&self) -> Vec<Arc<RedisConnection>> {
        self.members.connections()
    }

    /// Returns the connection to a primary. If no topology is known yet, it is waited for.
    ///
    /// # Errors
    /// When there is no such primary.
    pub async fn connection(&self, primary: PrimaryIndex) -> Result<Arc<RedisConnection>, StoreError> {
        if self.topology.load().shards.is_empty() {
            self.first_topology().await;
        }
        self.members.connection(primary)
    }

    /// Returns the primary that holds a slot; the first one if nobody is known to hold it.
    #[must_use]
    pub fn owner(&self, slot: HashSlotId) -> PrimaryIndex {
        self.topology.load().owner(slot.cluster_slot()).unwrap_or_default()
    }

    /// Returns the connection to the primary that holds a key without a hash tag.
    ///
    /// # Errors
    /// When nobody serves its slot.
    pub fn connection_of_key(&self, key: &str) -> Result<Arc<RedisConnection>, StoreError> {
        let owner = self.topology.load().owner(HashSlotId::cluster_slot_of(key.as_bytes()));
        self.members.connection(owner.ok_or(StoreError::Unreachable)?)
    }

    /// Returns the connection to a primary, and the name of a slot that it holds.
    ///
    /// # Errors
    /// When it holds no slot.
    pub fn own_slot(&self, primary: PrimaryIndex) -> Result<(Arc<RedisConnection>, HashSlotId), StoreError> {
        self.members.own_slot(primary)
    }

    /// Waits for the first topology, at most as long as an attempt to connect may take. Must be called inside a tokio runtime.
    pub(crate) async fn first_topology(&self) {
        let reads = self.reads.get_or_init(|| {
            let (sender, receiver) = watch::channel(0);
            tokio::spawn(follow(self.own.clone(), sender));
            receiver
        });
        let mut reads = reads.clone();
        let _ = timeout(self.access.connect_timeout, reads.wait_for(|reads| *reads > 0)).await;
    }

    /// Reads the topology from some nodes, and follows the newest one.
    async fn read_topology(&self) -> Result<(), ConnectError> {
        // The epoch first: it is never newer than the slots.
        let commands = [redis::cmd("CLUSTER").arg("INFO").take(), redis::cmd("CLUSTER").arg("SLOTS").take()];
        let mut answers = self.ask_members(&commands).await;
        if answers.is_empty() {
            let RedisServers::Cluster(seeds) = &self.access.address.servers else {
                return Err(ConnectError::unreachable("the address names no cluster"));
            };
            let known = self.topology.load_full();
            let more = known.shards.iter().map(|shard| shard.address.clone()).filter(|host| !seeds.contains(host));
            let hosts: Vec<HostPort> = seeds.iter().cloned().chain(more).collect();
            answers = ask_nodes(&self.dialer, &hosts, &commands).await?;
        }
        let known = self.topology.load_full();
        let read = |(host, answer): &(HostPort, Vec<Value>)| {
            let [info, slots] = &answer[..] else { return Err("a node has not answered".to_owned()) };
            known.read(host, slots, info)
        };
        let (topologies, errors): (Vec<_>, Vec<_>) = answers.iter().map(read).partition(Result::is_ok);
        let newest = topologies.into_iter().flatten().max_by_key(|topology| topology.epoch);
        let why = || errors.into_iter().find_map(Result::err).unwrap_or_default();
        let newest = newest.ok_or_else(|| ConnectError::refused("NO-SLOTS", why()))?;
        self.learn(newest, self.age.elapsed());
        Ok(())
    }

    /// Follows the newest topology that nodes tell at this age of the connection to the cluster, unless it is an old one.
    fn learn(&self, newest: Topology, age: Duration) {
        let known = self.topology.load_full();
        let is_older = newest.epoch < known.epoch;
        if !self.older.lock().is_believed(is_older, true, age) {
            return;
        }
        if is_older {
            let (old, new) = (known.epoch, newest.epoch);
            let store = &self.errors.address;
            tracing::warn!(%store, old, new, "all nodes tell an older configuration epoch: the cluster was set up anew");
        }
        self.follow(|_| newest);
    }

    /// Asks primaries over their connections.
    async fn ask_members(&self, commands: &[Cmd]) -> Vec<(HostPort, Vec<Value>)> {
        let mut answers = Vec::new();
        for (host, connection) in self.members.connected() {
            let ask = async {
                let mut of_node = Vec::new();
                for command in commands {
                    of_node.push(connection.request::<Value>(command).await.ok()?);
                }
                Some(of_node)
            };
            if let Ok(Some(of_node)) = timeout(ANSWER_WAIT, ask).await {
                answers.push((host, of_node));
            }
            if answers.len() == ASKED_LEN_MAX {
                break;
            }
        }
        answers
    }

    /// Changes the topology: its primaries get connections, the listener is told of slots that have moved.
    fn follow(&self, change: impl FnOnce(&Topology) -> Topology) {
        let _order = self.changes.lock();
        let before = self.topology.load_full();
        let topology = Arc::new(change(&before));
        self.members.follow(&topology, &self.errors.address, |address| self.connect_to(address));
        let has_moved = topology.owners != before.owners;
        self.topology.store(topology.clone());
        if let Some(listener) = self.listener.get().filter(|_| has_moved) {
            listener(&topology.owners);
        }
    }

    fn connect_to(&self, address: Arc<MemberAddress>) -> RedisConnection {
        let (access, clock, own) = (self.access.clone(), self.clock.clone(), self.own.clone());
        RedisConnection::to_member(access, address, clock, (self.ping)(), own)
    }
}

impl Redirects for Cluster {
    fn moved(&self, slot: u16, address: HostPort) {
        let known = self.topology.load();
        if known.owner(slot).is_some_and(|owner| known.at(&address) == Some(owner)) {
            return;
        }
        self.follow(|topology| topology.with_moved(slot, &address));
        self.outdated();
    }

    fn asked(&self, address: HostPort) -> StoreError {
        if self.topology.load().at(&address).is_none() {
            // It has just joined, and has no slot yet.
            self.follow(|topology| topology.with_node(&address));
            self.outdated();
        }
        self.topology.load().at(&address).map_or(StoreError::Unreachable, StoreError::Asked)
    }

    fn outdated(&self) {
        self.is_outdated.notify_one();
    }
}

/// Reads the topology again and again, as long as the cluster is in use.
async fn follow(cluster: Weak<Cluster>, reads: watch::Sender<u64>) {
    loop {
        let Some(cluster) = cluster.upgrade() else { return };
        let read = cluster.read_topology().await;
        if let Err(error) = &read {
            cluster.errors.connect_failed(error);
        } else {
            cluster.errors.is_over();
        }
        reads.send_modify(|reads| *reads += u64::from(read.is_ok()));
        let wait = if read.is_err() || cluster.members.lack_connection() { TOPOLOGY_RETRY } else { TOPOLOGY_INTERVAL };
        // Many requests may be sent elsewhere at once.
        tokio::time::sleep(TOPOLOGY_RETRY).await;
        let _ = timeout(wait, cluster.is_outdated.notified()).await;
    }
}
