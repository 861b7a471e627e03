//! The Sentinels of an address: they tell which server is the primary, and since which epoch.
//!
//! After a partition, Sentinels may differ. The answer with the newest epoch counts, and with the same epoch that of most of them. It is
//! remembered, so that a Sentinel that was away does not lead back to an old primary. The links stay open, because they are asked again
//! and again: a primary that was replaced may still take writes, and its connections stay open.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::lookup_host;
use tokio::sync::mpsc::unbounded_channel;
use tollgate_core::clock::Stopwatch;

use super::dialer::Dialer;
use super::sentinel_link::{NamedPrimary, SentinelLink};
use crate::address::HostPort;
use crate::connect_error::ConnectError;
use crate::older_answers::OlderAnswers;

/// Sentinels of an address.
pub(super) struct Sentinels {
    /// Links to the addresses of all hosts, as they were resolved.
    links: Arc<Mutex<Vec<SentinelLink>>>,
    newest: Mutex<NewestElection>,
    age: Stopwatch,
}

/// Newest election that was told.
#[derive(Debug, Default)]
struct NewestElection {
    primary: Option<NamedPrimary>,
    /// Belief in an older one, on which most Sentinels agree.
    older: OlderAnswers,
}

impl Sentinels {
    /// Sentinels whose names are not resolved yet.
    pub(super) fn new() -> Self {
        Self { links: Arc::default(), newest: Mutex::default(), age: Stopwatch::start() }
    }

    /// Resolves the names of the hosts. Links to addresses that remain are kept.
    pub(super) async fn resolve(&self, hosts: &[HostPort]) -> Result<(), ConnectError> {
        let mut found: Vec<(SocketAddr, HostPort)> = Vec::new();
        let mut failure = None;
        for host in hosts {
            match lookup_host((&*host.host, host.port)).await {
                Ok(addresses) => found.extend(addresses.map(|address| (address, host.clone()))),
                Err(error) => failure = Some(ConnectError::unreachable(format!("Sentinel {host}: {error}"))),
            }
        }
        if found.is_empty() {
            return Err(
                failure.unwrap_or_else(|| ConnectError::unreachable("the names of the Sentinels have no address"))
            );
        }
        let mut links = self.links.lock();
        links.retain(|link| found.iter().any(|(address, _)| *address == link.address));
        for (address, host) in found {
            if links.iter().all(|link| link.address != address) {
                links.push(SentinelLink::new(address, host));
            }
        }
        Ok(())
    }

    /// Asks the Sentinels for the primary.
    ///
    /// # Errors
    /// If none answers, or only with an election that is older than the newest one.
    pub(super) async fn primary(&self, dialer: &Dialer, name: &str) -> Result<NamedPrimary, ConnectError> {
        let links: Vec<SentinelLink> = self.links.lock().iter_mut().filter_map(SentinelLink::take_if_due).collect();
        let login = if links.iter().all(SentinelLink::is_open) { None } else { Some(dialer.sentinel_login().await) };
        let (sender, mut answers) = unbounded_channel();
        for link in links {
            let (login, name, wait) = (login.clone(), name.to_owned(), dialer.dial_timeout());
            let (sender, links) = (sender.clone(), self.links.clone());
            // A question is asked to its end, so that a silent Sentinel gets no new connection at each attempt.
            tokio::spawn(async move {
                let (asked, answer) = link.ask(login, wait, &name).await;
                if let Some(link) = links.lock().iter_mut().find(|link| link.address == asked.address) {
                    *link = asked;
                }
                let _ = sender.send(answer);
            });
        }
        drop(sender);
        let (mut found, mut failure) = (Vec::new(), ConnectError::unreachable("no Sentinel answers"));
        while let Some(answer) = answers.recv().await {
            match answer {
                Ok(primary) => found.push(primary),
                Err(error) => failure.keep_more_telling(error),
            }
            if self.is_settled(&found) {
                break;
            }
        }
        let (best, votes) = best(&found).ok_or(failure)?;
        let is_of_most = 2 * votes > self.links.lock().len();
        self.newest.lock().accept(best, is_of_most, self.age.elapsed())
    }

    /// Returns true if more than half of the Sentinels agree on an election that is not older than the newest one.
    fn is_settled(&self, answers: &[NamedPrimary]) -> bool {
        let newest_epoch = self.newest.lock().primary.as_ref().map_or(0, |primary| primary.epoch);
        let is_majority = |votes: usize| 2 * votes > self.links.lock().len();
        best(answers).is_some_and(|(best, votes)| best.epoch >= newest_epoch && is_majority(votes))
    }
}

impl NewestElection {
    /// Takes an answer, if it is not older than the newest one, or most Sentinels have given it for a while.
    fn accept(&mut self, found: NamedPrimary, is_of_most: bool, age: Duration) -> Result<NamedPrimary, ConnectError> {
        let newest_epoch = self.primary.as_ref().map_or(0, |primary| primary.epoch);
        if !self.older.is_believed(found.epoch < newest_epoch, is_of_most, age) {
            let text = format!("they name {} in epoch {}, older than {newest_epoch}", found.server, found.epoch);
            return Err(ConnectError::refused("SENTINEL-OLD", text));
        }
        self.primary = Some(found.clone());
        Ok(found)
    }
}

/// Returns the newest answer that most of the Sentinels with the newest epoch gave, and their number.
fn best(answers: &[NamedPrimary]) -> Option<(NamedPrimary, usize)> {
    let votes = |answer: &NamedPrimary| answers.iter().filter(|other| *other == answer).count();
    let best = answers.iter().max_by_key(|answer| (answer.epoch, votes(answer)))?;
    Some((best.clone(), votes(best)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(epoch: u64, port: u16) -> NamedPrimary {
        NamedPrimary { epoch, server: HostPort { host: "10.0.0.5".to_owned(), port } }
    }

    #[test]
    fn the_newest_epoch_counts_and_then_the_number_of_sentinels() {
        let of = |answers: &[NamedPrimary]| best(answers).map(|(best, votes)| (best.server.port, votes));
        assert_eq!(of(&[named(1, 1), named(2, 2), named(1, 1)]), Some((2, 1)));
        assert_eq!(of(&[named(2, 1), named(2, 2), named(2, 2)]), Some((2, 2)));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_older_election_is_believed_once_most_sentinels_have_agreed_on_it_for_ten_seconds() {
        let mut newest = NewestElection::default();
        // Election, support of most Sentinels, instant in ms; the belief in it.
        for (found, is_of_most, at_ms, is_accepted) in [
            (named(1, 1), true, 0, true),
            (named(5, 2), false, 0, true),
            (named(3, 1), true, 1_000, false),
            (named(3, 1), true, 10_999, false),
            (named(3, 1), false, 11_000, false),
            (named(3, 1), true, 12_000, false),
            (named(5, 2), true, 13_000, true),
            (named(3, 1), true, 14_000, false),
            (named(3, 1), true, 24_000, true),
            (named(5, 2), true, 24_001, true),
        ] {
            let accepted = newest.accept(found.clone(), is_of_most, Duration::from_millis(at_ms));
            assert_eq!(accepted.is_ok(), is_accepted, "{found:?} at {at_ms}");
            assert_eq!(newest.primary == Some(found), is_accepted, "at {at_ms}");
        }
    }
}
