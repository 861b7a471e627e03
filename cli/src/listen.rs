//! Flags of the sockets on which a process listens, and their binding.

use std::io::ErrorKind;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use tollgate::watch_files;
use tollgate_command::command_line;
use tollgate_listen::{
    Address, CONNECTIONS_MAX_DEFAULT, HEADER_BYTES_MAX_DEFAULT, HEADER_BYTES_MAX_MIN, ListenGroup, ListenSettings,
    Listener,
};

use crate::serve;
use crate::tls::{TlsArgs, report_ends};

#[derive(Clone, clap::Args)]
pub(crate) struct ListenArgs {
    /// Cap on the open connections of all addresses; at the cap, those that are idle for longest are closed
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX_DEFAULT, value_parser = command_line::positive)]
    connections_max: NonZeroU32,
    /// Maximum length of the headers of a request in bytes
    #[arg(long, value_name = "N", default_value_t = HEADER_BYTES_MAX_DEFAULT, value_parser = clap::value_parser!(u32).range(i64::from(HEADER_BYTES_MAX_MIN)..=1 << 20))]
    header_bytes_max: u32,
    /// Time in which a client must send a request that it has begun; slower ones are closed
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = serve::duration)]
    header_timeout: Duration,
    /// Time after which a connection without requests is closed
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = serve::duration)]
    idle_timeout: Duration,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

impl ListenArgs {
    /// Returns what the sockets of the process have in common. Certificates are read, and read again when their files change; their ends
    /// are reported by a task.
    pub(crate) fn group(&self) -> anyhow::Result<ListenGroup> {
        let settings = ListenSettings {
            connections_max: self.connections_max.get() as usize,
            header_bytes_max: self.header_bytes_max,
            header_timeout: self.header_timeout,
            idle_timeout: self.idle_timeout,
        };
        let (tls, watches) = self.tls.load()?.unzip();
        watch_files(watches.into_iter().collect(), Arc::default(), Arc::default())?;
        if let Some(tls) = tls.clone() {
            tokio::spawn(report_ends(tls));
        }
        Ok(ListenGroup::new(settings, tls))
    }
}

/// Binds a socket, whose address a flag chose.
pub(crate) async fn bind(group: &ListenGroup, address: &Address, flag: &str) -> anyhow::Result<Listener> {
    let bound = Listener::bind(address, group).await;
    bound.map_err(|error| match (error.kind(), address) {
        (ErrorKind::AddrInUse, Address::Tcp(tcp)) => anyhow!(
            "{address} is in use; stop the process that listens there, or take any free port with {flag} {}:0",
            tcp.ip()
        ),
        (ErrorKind::AddrInUse, Address::Unix(_)) => {
            anyhow!("{address} exists; stop the process that listens there, or remove the file if it is no socket")
        }
        (ErrorKind::PermissionDenied, Address::Tcp(tcp)) => {
            anyhow!("{address} is not permitted; take a port from 1024 on, such as {flag} {}:8080", tcp.ip())
        }
        (ErrorKind::PermissionDenied, Address::Unix(_)) => {
            anyhow!("{address} is not permitted; choose a folder that this user may write to")
        }
        (ErrorKind::NotFound, Address::Unix(_)) => anyhow!("{address}: there is no such folder; create it"),
        (ErrorKind::AddrNotAvailable, _) => {
            anyhow!("{address} is not an address of this machine; listen on 127.0.0.1 or 0.0.0.0")
        }
        _ => anyhow::Error::new(error).context(format!("cannot listen on {address}")),
    })
}
