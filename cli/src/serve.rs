//! Shared parts of the commands that run for long: address, name, number, and stop signals.

use std::hash::{BuildHasher, RandomState};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tollgate::Agent;
use tollgate::store::ChargeStore;
use tollgate_command::exit::Exit;
use tollgate_core::call::NAME_LEN_MAX;
use tollgate_core::rules::parse_duration_ms;

/// Catches the signals that stop a process, and those that others use for their logs; from here on they do not end it. The future waits for the first signal. A
/// second one ends the process at once.
pub(crate) fn stop_requested() -> anyhow::Result<impl Future<Output = ()> + Send> {
    report_user_signals()?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut next = async move || {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    Ok(async move {
        next().await;
        tracing::info!("stopping once open requests are answered; Ctrl-C again stops at once");
        tokio::spawn(async move {
            next().await;
            std::process::exit(Exit::Failed as i32);
        });
    })
}

/// Catches the signals by which others tell a program to open its log again; they would end the process. This log is standard error.
fn report_user_signals() -> anyhow::Result<()> {
    for (kind, name) in [(SignalKind::user_defined1(), "SIGUSR1"), (SignalKind::user_defined2(), "SIGUSR2")] {
        let mut signals = signal(kind)?;
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                tracing::info!("{name} changes nothing: the log goes to standard error; SIGHUP reads the files again");
            }
        });
    }
    Ok(())
}

/// Catches SIGHUP, which from here on does not end the process.
pub(crate) fn hang_ups() -> anyhow::Result<Signal> {
    Ok(signal(SignalKind::hangup())?)
}

/// Reloads the files of agents with the same files at each SIGHUP.
pub(crate) fn reload_at<S: ChargeStore>(mut hang_ups: Signal, agents: Vec<Agent<S>>) {
    tokio::spawn(async move {
        while hang_ups.recv().await.is_some() {
            tracing::info!("SIGHUP: reading the files with rules and keys again");
            if agents.iter().filter(|agent| agent.reload_files()).count() == 0 {
                tracing::warn!(
                    "nothing is reloaded: this agent has no such file; it follows published rules by itself, and a changed --limit needs a restart"
                );
            }
        }
    });
}

pub(crate) fn random_aggregator() -> String {
    format!("aggregator-{:08x}", random_number() >> 32)
}

pub(crate) fn random_number() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Parses HOST:PORT.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    found.ok_or_else(|| "write HOST:PORT, such as 127.0.0.1:8080".to_owned())
}

/// Parses a time above 0.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let ms = parse_duration_ms(text).filter(|ms| *ms > 0);
    ms.map(Duration::from_millis).ok_or_else(|| "write a duration, such as 500ms or 2s".to_owned())
}

/// Parses a name that fits in a header.
pub(crate) fn node(text: &str) -> Result<String, String> {
    let fits = (1..=NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("write 1 to {NAME_LEN_MAX} letters, digits or signs, without spaces"))
}
