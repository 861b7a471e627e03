//! The way to the server that holds a key: one server, or that of a cluster.

use std::sync::Arc;

use tollgate_core::clock::Clock;
use tollgate_core::counter::StoreError;

use crate::address::RedisAddressError;
use crate::cluster::{Cluster, PingMaker};
use crate::connection::RedisConnection;
use crate::settings::RedisSettings;

/// Way to the server that holds a key.
#[derive(Clone)]
pub enum RedisLink {
    /// One server.
    Server(Arc<RedisConnection>),
    /// The servers of a cluster.
    Cluster(Arc<Cluster>),
}

impl RedisLink {
    /// Way to the servers at this address, which a script pings.
    pub(crate) fn new(
        settings: &RedisSettings,
        clock: Arc<dyn Clock>,
        ping: PingMaker,
    ) -> Result<Self, RedisAddressError> {
        Ok(if settings.is_cluster() {
            Self::Cluster(Cluster::new(settings, clock, ping)?)
        } else {
            Self::Server(Arc::new(RedisConnection::new(settings, clock, ping())?))
        })
    }

    /// Returns the address, without the password.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Server(connection) => connection.address(),
            Self::Cluster(cluster) => cluster.address(),
        }
    }

    /// Returns the connection to the server that holds a key.
    pub(crate) fn of_key(&self, key: &str) -> Result<Arc<RedisConnection>, StoreError> {
        match self {
            Self::Server(connection) => Ok(connection.clone()),
            Self::Cluster(cluster) => cluster.connection_of_key(key),
        }
    }

    /// Returns the connection to the server that holds a key, once it answers. Connects if need be.
    pub(crate) async fn awaited(&self, key: &str) -> Result<Arc<RedisConnection>, StoreError> {
        if let Self::Cluster(cluster) = self {
            cluster.first_topology().await;
        }
        let connection = self.of_key(key)?;
        connection.ping().await?;
        Ok(connection)
    }
}

impl From<Arc<RedisConnection>> for RedisLink {
    fn from(connection: Arc<RedisConnection>) -> Self {
        Self::Server(connection)
    }
}
