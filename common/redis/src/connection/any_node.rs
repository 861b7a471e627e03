//! Question to any of several nodes, over connections of its own: while there is none to a primary.

use std::time::Duration;

use redis::{Cmd, Value};
use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::dialer::{Dialer, Login};
use crate::address::HostPort;
use crate::connect_error::ConnectError;

/// Maximum time for the answer to a command.
const ANSWER_WAIT: Duration = Duration::from_millis(500);

/// Connects to all hosts at once, and sends them these commands. Returns the answers of each with its host.
///
/// # Errors
/// If no host answers all commands; returns the error that tells most.
pub(crate) async fn ask_nodes(
    dialer: &Dialer,
    hosts: &[HostPort],
    commands: &[Cmd],
) -> Result<Vec<(HostPort, Vec<Value>)>, ConnectError> {
    let login = dialer.login().await?;
    let mut asked = JoinSet::new();
    for host in hosts {
        let (login, host, commands) = (login.clone(), host.clone(), commands.to_vec());
        asked.spawn(async move {
            let answered = timeout(login.timeout(), ask(&login, &host, &commands)).await;
            let answers = answered.unwrap_or_else(|_| Err(ConnectError::silent(login.timeout())));
            answers.map(|answers| (host.clone(), answers)).map_err(|error| error.at(&host.to_string()))
        });
    }
    let (mut answers, mut failure) = (Vec::new(), ConnectError::unreachable("no node is known"));
    while let Some(answer) = asked.join_next().await {
        match answer.unwrap_or_else(|error| Err(ConnectError::unreachable(error.to_string()))) {
            Ok(answer) => answers.push(answer),
            Err(error) => failure.keep_more_telling(error),
        }
    }
    if answers.is_empty() { Err(failure) } else { Ok(answers) }
}

async fn ask(login: &Login, host: &HostPort, commands: &[Cmd]) -> Result<Vec<Value>, ConnectError> {
    let resolved = lookup_host((&*host.host, host.port)).await;
    let mut failure = ConnectError::unreachable("the name has no address");
    for address in resolved.map_err(|error| ConnectError::unreachable(error.to_string()))? {
        match login.dial(address, &host.host, host.to_string()).await {
            Ok(socket) => {
                let mut answers = Vec::new();
                for command in commands {
                    let answer = timeout(ANSWER_WAIT, socket.exchange::<Value>(command)).await;
                    let answer = answer.map_err(|_| ConnectError::silent(ANSWER_WAIT))?;
                    answers.push(answer.map_err(|error| login.refusal(ConnectError::of_login(&error)))?);
                }
                return Ok(answers);
            }
            Err(error) => failure.keep_more_telling(error),
        }
    }
    Err(failure)
}
