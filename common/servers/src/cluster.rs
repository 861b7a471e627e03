//! A Redis Cluster: primaries with a replica each, which take over within a few seconds.

use super::redis::RedisKind;
use crate::certificates::Certificates;
use crate::port::free_port;
use crate::server::{Server, ServerError, try_wait_for};

const PROGRAM: &str = "redis-server";
/// Number of slots.
const SLOTS: u32 = 16_384;
/// Time after which a silent node is taken for failed, in ms.
const NODE_TIMEOUT_MS: &str = "1000";

/// Nodes of a cluster.
pub struct RedisCluster {
    /// Primaries at the beginning, in the order of their slots; then their replicas, in the same order; then nodes without slots.
    pub nodes: Vec<Server<RedisKind>>,
    primaries: usize,
    replicas: usize,
}

impl RedisCluster {
    /// Starts three primaries with a replica each.
    ///
    /// # Panics
    /// Panics if redis-server is not installed, or the cluster is not complete within a minute.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(3, 1, &[])
    }

    /// Starts so many primaries, each with so many replicas, with further settings.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with(primaries: usize, replicas: usize, settings: &[&str]) -> Self {
        Self::started((primaries, replicas, 0), settings, Server::<RedisKind>::start_with)
    }

    /// Starts three primaries without replicas, and a node that has no slot yet.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with_empty_node() -> Self {
        Self::started((3, 0, 1), &[], Server::<RedisKind>::start_with)
    }

    /// Starts three primaries without replicas, whose clocks can be set.
    ///
    /// # Panics
    /// As [`start`](Self::start), or if faketime is not installed.
    #[must_use]
    pub fn start_with_clocks() -> Self {
        Self::started((3, 0, 0), &[], Server::<RedisKind>::start_with_clock_and)
    }

    /// Starts three primaries without replicas, with the certificate `server`. They speak TLS with one another and with clients.
    ///
    /// # Panics
    /// As [`start`](Self::start).
    #[must_use]
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        Self::try_start_with_tls(PROGRAM, 0, certificates).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Starts three primaries of this program, each with so many replicas, with the certificate `server`. They speak TLS with one another
    /// and with clients.
    ///
    /// # Errors
    /// If the program does not exist, or the cluster is not complete within a minute.
    pub fn try_start_with_tls(
        program: &str,
        replicas: usize,
        certificates: &Certificates,
    ) -> Result<Self, ServerError> {
        Self::join((3, replicas, 0), &["--tls-cluster", "yes"], |settings| {
            let tls = certificates.redis_settings(free_port());
            let tls: Vec<[String; 2]> = tls.map(|[name, value]| [format!("--{name}"), value]).into();
            let of_node = tls.iter().flatten().map(String::as_str).chain(settings.iter().copied());
            Server::<RedisKind>::try_start(program, &of_node.collect::<Vec<_>>())
        })
    }

    fn started(sizes: (usize, usize, usize), settings: &[&str], start: impl Fn(&[&str]) -> Server<RedisKind>) -> Self {
        Self::join(sizes, settings, |settings| Ok(start(settings))).unwrap_or_else(|error| panic!("{error}"))
    }

    fn join(
        (primaries, replicas, empty): (usize, usize, usize),
        settings: &[&str],
        start: impl Fn(&[&str]) -> Result<Server<RedisKind>, ServerError>,
    ) -> Result<Self, ServerError> {
        let node = |_| {
            let bus = free_port().to_string();
            let of_cluster = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--cluster-node-timeout"];
            let of_cluster = of_cluster.into_iter().chain([NODE_TIMEOUT_MS, "--cluster-replica-validity-factor", "0"]);
            // The slots of a lost primary fail, and the others do not.
            let of_cluster = of_cluster.chain(["--cluster-require-full-coverage", "no"]);
            start(&of_cluster.chain(settings.iter().copied()).collect::<Vec<_>>())
        };
        let nodes = (0..primaries * (1 + replicas) + empty).map(node).collect::<Result<_, _>>()?;
        let cluster = Self { nodes, primaries, replicas };
        cluster.assign()?;
        Ok(cluster)
    }

    /// Lets the nodes meet, and gives the primaries their slots and replicas.
    fn assign(&self) -> Result<(), ServerError> {
        let ok = |node: &Server<RedisKind>, command: &str| match &*node.try_command(command)? {
            "+OK" => Ok(()),
            refusal => Err(std::io::Error::other(format!("Redis refuses `{command}`: {refusal}"))),
        };
        let bus = setting(&self.nodes[0], "cluster-port");
        for (index, node) in self.nodes.iter().enumerate() {
            ok(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1))?;
            if index < self.primaries {
                let (first, next) = (self.first_slot(index), self.first_slot(index + 1));
                ok(node, &format!("CLUSTER ADDSLOTSRANGE {first} {}", next - 1))?;
            }
            if index > 0 {
                ok(node, &format!("CLUSTER MEET 127.0.0.1 {} {bus}", own_port(&self.nodes[0])))?;
            }
        }
        let known = format!("cluster_known_nodes:{}\r", self.nodes.len());
        for node in &self.nodes {
            try_wait_for("nodes that know each other", || Ok(node.try_command("CLUSTER INFO")?.contains(&known)))?;
        }
        for index in self.replica_indexes() {
            let replica = &self.nodes[index];
            let command = format!("CLUSTER REPLICATE {}", id(&self.nodes[index % self.primaries]));
            try_wait_for("a replica", || Ok(replica.try_command(&command)? == "+OK"))?;
        }
        self.wait_until_complete()
    }

    fn replica_indexes(&self) -> std::ops::Range<usize> {
        self.primaries..self.primaries * (1 + self.replicas)
    }

    /// Waits until each node finds the cluster complete, and all replicas follow their primaries.
    ///
    /// # Errors
    /// If that takes longer than a minute.
    pub fn wait_until_complete(&self) -> Result<(), ServerError> {
        try_wait_for("a complete cluster", || {
            let mut following = 0;
            for node in &self.nodes {
                if !node.try_command("CLUSTER INFO")?.contains("cluster_state:ok") {
                    return Ok(false);
                }
                following += usize::from(node.try_command("INFO replication")?.contains("master_link_status:up"));
            }
            Ok(following == self.replica_indexes().len())
        })
    }

    fn first_slot(&self, primary: usize) -> u32 {
        SLOTS * u32::try_from(primary).expect("few primaries") / u32::try_from(self.primaries).expect("few primaries")
    }

    /// Returns the address by which clients find all nodes.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<String> = self.nodes.iter().map(|node| format!("127.0.0.1:{}", own_port(node))).collect();
        let scheme = if setting(&self.nodes[0], "tls-port") == "0" { "redis" } else { "rediss" };
        format!("{scheme}+cluster://{}", hosts.join(","))
    }

    /// Returns the index of the primary that a slot had at the beginning.
    ///
    /// # Panics
    /// Panics if there is no such slot.
    #[must_use]
    pub fn primary_of(&self, slot: u16) -> usize {
        (0..self.primaries).find(|index| u32::from(slot) < self.first_slot(index + 1)).expect("a slot")
    }

    /// Begins to move a slot from the primary of this index to another one.
    ///
    /// # Panics
    /// Panics if a node refuses.
    pub fn begin_move(&self, slot: u16, from: usize, to: usize) {
        let (of_from, of_to) = (id(&self.nodes[from]), id(&self.nodes[to]));
        assert_eq!(self.nodes[to].command(&format!("CLUSTER SETSLOT {slot} IMPORTING {of_from}")), "+OK");
        assert_eq!(self.nodes[from].command(&format!("CLUSTER SETSLOT {slot} MIGRATING {of_to}")), "+OK");
    }

    /// Moves up to so many keys of a slot that is being moved; returns false if there was none.
    ///
    /// # Panics
    /// Panics if a node refuses.
    pub fn move_keys(&self, slot: u16, from: usize, to: usize, keys_max: usize) -> bool {
        let keys = self.nodes[from].command(&format!("CLUSTER GETKEYSINSLOT {slot} {keys_max}"));
        let keys: Vec<&str> = keys.lines().skip(2).step_by(2).map(str::trim).collect();
        if keys.is_empty() {
            return false;
        }
        let (port, keys) = (self.nodes[to].port(), keys.join(" "));
        let moved = self.nodes[from].command(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 REPLACE KEYS {keys}"));
        assert!(moved.starts_with('+'), "{moved}");
        true
    }

    /// Ends the move of a slot.
    ///
    /// # Panics
    /// Panics if a node refuses.
    pub fn end_move(&self, slot: u16, from: usize, to: usize) {
        let of_to = id(&self.nodes[to]);
        for node in [to, from].into_iter().chain(0..self.primaries) {
            assert_eq!(self.nodes[node].command(&format!("CLUSTER SETSLOT {slot} NODE {of_to}")), "+OK");
        }
    }
}

/// Returns the identifier of a node.
fn id(node: &Server<RedisKind>) -> String {
    node.command("CLUSTER MYID").lines().nth(1).expect("an identifier").trim().to_owned()
}

/// Returns the port by which nodes and clients know a node: that with TLS if it has one.
fn own_port(node: &Server<RedisKind>) -> String {
    let with_tls = setting(node, "tls-port");
    if with_tls == "0" { node.port().to_string() } else { with_tls }
}

/// Returns the value of a setting.
fn setting(node: &Server<RedisKind>, name: &str) -> String {
    let answer = node.command(&format!("CONFIG GET {name}"));
    answer.lines().last().expect("a value").trim().to_owned()
}
