//! The Sentinels of an address: they tell which server is the primary, and since which epoch.
//!
//! After a partition, Sentinels may differ. The answer with the newest epoch counts. The links to them stay open, because they are
//! asked again and again: a primary that was replaced may still take writes, and its connections stay open.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{RedisError, RedisResult};
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::dialer::Login;
use super::socket::Socket;
use crate::address::HostPort;
use crate::connect_error::ConnectError;

/// Maximum time for the answer of a Sentinel, which may be dead.
const ANSWER_WAIT: Duration = Duration::from_millis(300);

/// Primary, as Sentinels know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NamedPrimary {
    pub(super) epoch: u64,
    pub(super) server: HostPort,
}

/// Sentinels of an address.
#[derive(Default)]
pub(super) struct Sentinels {
    links: Mutex<HashMap<String, Arc<Socket>>>,
}

impl Sentinels {
    /// Asks all Sentinels for the primary, and returns the newest answer: once more than half of them agree on it, or none answers
    /// any more.
    pub(super) async fn primary(
        &self,
        login: &Login,
        hosts: &[HostPort],
        name: &str,
    ) -> Result<NamedPrimary, ConnectError> {
        let mut asked = JoinSet::new();
        for host in hosts {
            let link = self.links.lock().get(&host.to_string()).cloned();
            let (host, login, name) = (host.clone(), login.clone(), name.to_owned());
            asked.spawn(async move {
                let answer = timeout(ANSWER_WAIT, ask(&login, &host, link, &name)).await;
                (host.to_string(), answer.unwrap_or_else(|_| Err(ConnectError::silent(ANSWER_WAIT))))
            });
        }
        let (mut newest, mut agreeing) = (None::<NamedPrimary>, 0);
        let mut failure = ConnectError::unreachable("no Sentinel is named");
        while let Some(answer) = asked.join_next().await {
            let Ok((node, answer)) = answer else { continue };
            match answer {
                Ok((link, primary)) => {
                    self.links.lock().insert(node, link);
                    match &newest {
                        Some(known) if known.epoch > primary.epoch => {}
                        Some(known) if *known == primary => agreeing += 1,
                        _ => (newest, agreeing) = (Some(primary), 1),
                    }
                }
                Err(error) => {
                    self.links.lock().remove(&node);
                    let error = error.at(&format!("Sentinel {node}"));
                    if failure.code == "CONNECT" || error.tells_more_than(&failure) {
                        failure = error;
                    }
                }
            }
            if 2 * agreeing > hosts.len() {
                break;
            }
        }
        newest.ok_or(failure)
    }
}

async fn ask(
    login: &Login,
    host: &HostPort,
    link: Option<Arc<Socket>>,
    name: &str,
) -> Result<(Arc<Socket>, NamedPrimary), ConnectError> {
    let link = match link {
        Some(link) => link,
        None => Arc::new(dial(login, host).await.map_err(of_sentinel)?),
    };
    let command = redis::cmd("SENTINEL").arg("MASTER").arg(name).take();
    let answer: RedisResult<HashMap<String, String>> = link.exchange(&command).await;
    let fields = answer.map_err(|error| refusal(&error, name))?;
    let server = || {
        let (host, port) = (fields.get("ip")?.clone(), fields.get("port")?.parse().ok()?);
        let epoch = fields.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        Some(NamedPrimary { epoch, server: HostPort { host, port } })
    };
    let primary = server().ok_or_else(|| ConnectError::refused("NO-REDIS", "the answer names no server"))?;
    Ok((link, primary))
}

async fn dial(login: &Login, host: &HostPort) -> Result<Socket, ConnectError> {
    let mut failure = ConnectError::unreachable("the name has no address");
    for address in lookup_host((&*host.host, host.port)).await? {
        match login.dial(address, &host.host, host.to_string()).await {
            Ok(link) => return Ok(link),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn refusal(error: &RedisError, name: &str) -> ConnectError {
    if error.to_string().contains("No such master") {
        return ConnectError::refused("SENTINEL-NAME", format!("it watches no primary of the name {name}"));
    }
    of_sentinel(ConnectError::of_login(error))
}

/// Returns the same error, with the code of its remedy at a Sentinel.
fn of_sentinel(error: ConnectError) -> ConnectError {
    let code = match &*error.code {
        "COMMAND" => "NO-SENTINEL",
        "NOAUTH" | "WRONGPASS" | "NOPERM" => "SENTINEL-LOGIN",
        _ => return error,
    };
    ConnectError::refused(code, error.text)
}
