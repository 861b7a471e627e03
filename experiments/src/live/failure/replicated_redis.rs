//! A cluster, or a primary with replicas and Sentinels, with TLS: what a fault does to it, and the instant at which a replica has taken
//! over.

use std::io;
use std::thread::sleep;

use tollgate::RedisTlsFiles;
use tollgate::store::RedisSettings;
use tollgate_core::clock::{Clock, Stopwatch};
use tollgate_servers::{Certificates, Redis, RedisCluster, SentinelGroup, ServerError, try_wait_for};

use super::deployment::RedisDeployment;
use super::faults::ServerFault;

/// Replicas of each primary of the cluster.
const REPLICAS: usize = 1;
/// Name under which `INFO` tells the port of the primary that a replica follows.
const PRIMARY_PORT: &str = "master_port";

pub(super) struct ReplicatedRedis {
    servers: ReplicatedServers,
    certificates: Certificates,
    /// Number of primaries that faults have struck.
    struck: usize,
}

enum ReplicatedServers {
    Cluster(RedisCluster),
    Sentinel(SentinelGroup),
}

impl ReplicatedRedis {
    pub(super) fn start(deployment: RedisDeployment, program: &str) -> Result<Self, ServerError> {
        let certificates = Certificates::of("experiment");
        let servers = if deployment == RedisDeployment::Cluster {
            ReplicatedServers::Cluster(RedisCluster::try_start_with_tls(program, REPLICAS, &certificates)?)
        } else {
            ReplicatedServers::Sentinel(SentinelGroup::try_start(program, Some(&certificates))?)
        };
        Ok(Self { servers, certificates, struck: 0 })
    }

    pub(super) fn settings(&self) -> RedisSettings {
        let url = match &self.servers {
            ReplicatedServers::Cluster(cluster) => cluster.url(),
            ReplicatedServers::Sentinel(group) => group.url(),
        };
        let ca = Some(self.certificates.path("ca.pem"));
        RedisSettings::new(&url).with_tls(RedisTlsFiles { ca, ..RedisTlsFiles::default() })
    }

    /// Makes a fault, and waits until all replicas follow again. Returns the instant in ms since the epoch at which a replica had taken
    /// over, or the server was back.
    pub(super) fn strike(&mut self, fault: ServerFault, clock: &dyn Clock) -> Result<u64, ServerError> {
        let length = fault.length();
        let end_ms = match fault {
            ServerFault::ReplicaKill => {
                let replica = self.replicas()?[0];
                let replica = &mut self.nodes_mut()[replica];
                replica.kill();
                sleep(length);
                replica.try_restart()?;
                clock.now().as_ms()
            }
            ServerFault::Pause | ServerFault::Kill => self.fail_over(fault, clock)?,
            _ => {
                sleep(length);
                clock.now().as_ms()
            }
        };
        let replicas = self.nodes().len() - self.primaries_len();
        try_wait_for("replicas that follow their primaries", || Ok(self.replicas()?.len() == replicas))?;
        Ok(end_ms)
    }

    /// Takes a primary away until a replica has taken over, and for the time of a fault at least. Returns the instant of the former.
    fn fail_over(&mut self, fault: ServerFault, clock: &dyn Clock) -> Result<u64, ServerError> {
        let is_primary = |node: &Redis| Ok(node.try_command("INFO replication")?.contains("role:master"));
        let primaries = positions(self.nodes(), is_primary)?;
        let lost = primaries[self.struck % primaries.len()];
        self.struck += 1;
        let tls_port = self.nodes()[lost].try_command("CONFIG GET tls-port")?;
        let followed = format!("{PRIMARY_PORT}:{}\r", tls_port.lines().last().unwrap_or_default().trim());
        let follows = |node: &Redis| Ok(node.try_command("INFO replication")?.contains(&followed));
        let candidates = positions(self.nodes(), follows)?;
        let away = Stopwatch::start();
        if fault == ServerFault::Pause {
            self.nodes()[lost].pause();
        } else {
            self.nodes_mut()[lost].kill();
        }
        try_wait_for("an election", || self.has_elected(&candidates))?;
        let elected_ms = clock.now().as_ms();
        sleep(fault.length().saturating_sub(away.elapsed()));
        if fault == ServerFault::Pause {
            self.nodes()[lost].resume();
        } else {
            self.nodes_mut()[lost].try_restart()?;
        }
        Ok(elected_ms)
    }

    /// Returns true if one of these replicas has become the primary.
    fn has_elected(&self, candidates: &[usize]) -> Result<bool, ServerError> {
        for node in candidates {
            if self.nodes()[*node].try_command("ROLE")?.contains("master") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the replicas that follow their primaries.
    fn replicas(&self) -> Result<Vec<usize>, ServerError> {
        positions(self.nodes(), |node| Ok(node.try_command("INFO replication")?.contains("master_link_status:up")))
    }

    fn primaries_len(&self) -> usize {
        match &self.servers {
            ReplicatedServers::Cluster(cluster) => cluster.nodes.len() / (1 + REPLICAS),
            ReplicatedServers::Sentinel(_) => 1,
        }
    }

    fn nodes(&self) -> &[Redis] {
        match &self.servers {
            ReplicatedServers::Cluster(cluster) => &cluster.nodes,
            ReplicatedServers::Sentinel(group) => &group.servers,
        }
    }

    fn nodes_mut(&mut self) -> &mut [Redis] {
        match &mut self.servers {
            ReplicatedServers::Cluster(cluster) => &mut cluster.nodes,
            ReplicatedServers::Sentinel(group) => &mut group.servers,
        }
    }
}

/// Returns the positions of the nodes for which this holds.
fn positions(nodes: &[Redis], holds: impl Fn(&Redis) -> io::Result<bool>) -> Result<Vec<usize>, ServerError> {
    let mut positions = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        if holds(node)? {
            positions.push(position);
        }
    }
    Ok(positions)
}
