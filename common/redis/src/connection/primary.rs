//! Search for the primary: of the servers that an address names, the one that says that it is the primary.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::dialer::{Login, ServerRole};
use super::socket::Socket;
use crate::address::HostPort;
use crate::connect_error::ConnectError;

/// Time that a server which does not tell its role waits for one that does.
const ROLE_WAIT: Duration = Duration::from_millis(100);

/// Step of a search.
enum SearchStep {
    Resolved(HostPort, Vec<SocketAddr>),
    Dialed(Socket, ServerRole),
}

/// Connects to all addresses of the hosts at once, because one may lead nowhere, and returns the connection to the primary. A server
/// that does not tell its role is taken for one if no other server is.
pub(super) async fn connect(login: &Login, hosts: &[HostPort]) -> Result<Socket, ConnectError> {
    let mut steps = JoinSet::new();
    for host in hosts.iter().cloned() {
        steps.spawn(async move {
            let resolved = lookup_host((&*host.host, host.port)).await.map(Iterator::collect);
            let addresses = resolved.map_err(|error| ConnectError::unreachable(format!("{host}: {error}")))?;
            Ok(SearchStep::Resolved(host, addresses))
        });
    }
    let mut failure = ConnectError::unreachable("the name has no address");
    let (mut untold, mut has_several) = (None, hosts.len() > 1);
    loop {
        let next = if untold.is_some() {
            timeout(ROLE_WAIT, steps.join_next()).await.unwrap_or_default()
        } else {
            steps.join_next().await
        };
        let Some(step) = next else { break };
        let error = match step.unwrap_or_else(|error| Err(ConnectError::unreachable(error.to_string()))) {
            Ok(SearchStep::Resolved(host, addresses)) => {
                has_several |= addresses.len() > 1;
                for address in addresses {
                    let (login, host) = (login.clone(), host.clone());
                    steps.spawn(async move { dial(&login, address, &host, has_several).await });
                }
                continue;
            }
            Ok(SearchStep::Dialed(socket, ServerRole::Primary)) => return Ok(socket),
            Ok(SearchStep::Dialed(socket, ServerRole::Untold)) => {
                untold.get_or_insert(socket);
                continue;
            }
            Ok(SearchStep::Dialed(socket, ServerRole::Replica(primary))) => {
                ConnectError::refused("READONLY", format!("{} is a replica, of the primary {primary}", socket.node()))
            }
            Ok(SearchStep::Dialed(socket, ServerRole::Sentinel)) => {
                ConnectError::refused("SENTINEL", format!("{} is a Sentinel", socket.node()))
            }
            Err(error) => error,
        };
        if failure.code == "CONNECT" || error.tells_more_than(&failure) {
            failure = error;
        }
    }
    untold.ok_or(failure)
}

async fn dial(
    login: &Login,
    address: SocketAddr,
    host: &HostPort,
    has_several: bool,
) -> Result<SearchStep, ConnectError> {
    let at = |error: ConnectError| if has_several { error.at(&address.to_string()) } else { error };
    let socket = login.dial(address, &host.host, host.to_string()).await.map_err(at)?;
    let role = login.role(&socket).await.map_err(at)?;
    Ok(SearchStep::Dialed(socket, role))
}
