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
/// Time that the other servers have once one has answered that it is no primary.
const OTHERS_WAIT: Duration = Duration::from_millis(500);

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
    let (mut untold, mut wait, mut has_several) = (None, None, hosts.len() > 1);
    while let Some(step) = next(&mut steps, wait).await {
        let error = match step {
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
                wait = Some(ROLE_WAIT);
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
        if error.code != "CONNECT" {
            wait.get_or_insert(OTHERS_WAIT);
        }
        failure.keep_more_telling(error);
    }
    untold.ok_or(failure)
}

/// Returns the next step that has ended; none if there is none, or none within the time.
async fn next(
    steps: &mut JoinSet<Result<SearchStep, ConnectError>>,
    wait: Option<Duration>,
) -> Option<Result<SearchStep, ConnectError>> {
    let next = match wait {
        Some(wait) => timeout(wait, steps.join_next()).await.unwrap_or_default(),
        None => steps.join_next().await,
    };
    next.map(|step| step.unwrap_or_else(|error| Err(ConnectError::unreachable(error.to_string()))))
}

async fn dial(
    login: &Login,
    address: SocketAddr,
    host: &HostPort,
    has_several: bool,
) -> Result<SearchStep, ConnectError> {
    let node = if has_several { address.to_string() } else { host.to_string() };
    let dialed = async {
        let socket = login.dial(address, &host.host, node.clone()).await?;
        match login.role(&socket).await {
            // Some proxies close the connection at a command that they do not know.
            Err(error) if error.code == "NO-LOGIN" => {
                let again = login.dial(address, &host.host, node.clone()).await?;
                if login.answers_ping(&again).await { Ok((again, ServerRole::Untold)) } else { Err(error) }
            }
            role => role.map(|role| (socket, role)),
        }
    };
    let dialed = timeout(login.timeout(), dialed).await.unwrap_or_else(|_| Err(ConnectError::silent(login.timeout())));
    let at = |error: ConnectError| if has_several { error.at(&node) } else { error };
    dialed.map(|(socket, role)| SearchStep::Dialed(socket, role)).map_err(at)
}
