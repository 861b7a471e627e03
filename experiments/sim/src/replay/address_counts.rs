//! Counts of the addresses of calls, to find a log whose calls all seem to come from a balancer.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;

use super::log::{AddressKind, LogCall, LoggedClient, passed_over};

/// Maximum number of different addresses of a field that are counted.
const DIFFERENT_MAX: usize = 100_000;
/// Smallest number of calls from which one address is suspicious.
const CALLS_MIN: u64 = 5;
/// Smallest number of addresses behind a few, and their ratio, from which these few are suspicious.
const BEHIND_MIN: usize = 20;
const BEHIND_RATIO: usize = 10;

/// Calls by client, and the different other addresses of each field.
#[derive(Debug, Default)]
pub(super) struct AddressCounts {
    calls: u64,
    clients: HashMap<String, u64, RandomState>,
    others: BTreeMap<String, HashSet<LoggedClient, RandomState>>,
    hosts: u64,
    several: Option<String>,
}

impl AddressCounts {
    /// Counts a call. A client that the user has chosen is not in doubt.
    pub(super) fn add(&mut self, call: &LogCall<'_>, client: &LoggedClient, is_chosen: bool) {
        self.hosts += u64::from(client.is_host());
        if is_chosen {
            return;
        }
        self.calls += 1;
        let shown = client.to_string();
        for (field, other) in passed_over(call, client) {
            if field.kind != AddressKind::Other && self.several.is_none() {
                self.several = Some(shown.clone());
            }
            if !self.others.contains_key(&*field.name) {
                self.others.insert(field.name.to_string(), HashSet::default());
            }
            if let Some(different) = self.others.get_mut(&*field.name).filter(|known| known.len() < DIFFERENT_MAX) {
                different.insert(other);
            }
        }
        if self.clients.len() < DIFFERENT_MAX || self.clients.contains_key(&shown) {
            *self.clients.entry(shown).or_default() += 1;
        }
    }

    /// Returns sentences about clients that may be the wrong ones.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        warnings.extend(self.balancers());
        if let Some(client) = &self.several {
            warnings.push(format!(
                "lines have several addresses; the client is the public one, such as {client}, unless --client chooses another"
            ));
        }
        if self.hosts > 0 {
            warnings
                .push(format!("{} calls have a host's name in place of an address; the name is their ip", self.hosts));
        }
        warnings
    }

    /// Returns a sentence about one client or a few that may be balancers, since another field has many addresses.
    fn balancers(&self) -> Option<String> {
        let (most, calls) = self.clients.iter().max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
        let (field, behind) = self.others.iter().max_by_key(|(_, different)| different.len())?;
        let (clients, behind) = (self.clients.len(), behind.len());
        let is_most = self.calls >= CALLS_MIN && calls * 2 > self.calls && behind >= 2 * clients;
        let is_few = behind >= BEHIND_MIN && behind >= BEHIND_RATIO * clients;
        let (said, them) = if is_most {
            (format!("{most} makes {calls} of {} calls", self.calls), format!("{most} is a balancer"))
        } else if is_few {
            let said = format!("only {clients} addresses, such as {most}, make all {} calls", self.calls);
            (said, "they are balancers".to_owned())
        } else {
            return None;
        };
        let choice = if field == "x_forwarded_for" { "last-forwarded" } else { field };
        Some(format!("{said}, and `{field}` has {behind} different values; if {them}, add --client {choice}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(calls: &[(impl AsRef<str>, AddressKind, impl AsRef<str>)]) -> Vec<String> {
        let mut counts = AddressCounts::default();
        for (client, kind, other) in calls {
            let (client, other) = (client.as_ref(), other.as_ref());
            let mut call = LogCall::default();
            call.add_address(AddressKind::Client, "first", client);
            call.add_address(*kind, "x_forwarded_for", other);
            counts.add(&call, &LoggedClient::Ip(client.parse().expect("an address")), false);
        }
        counts.warnings()
    }

    #[test]
    fn one_address_with_many_behind_it_is_suspicious() {
        const BEHIND: [&str; 6] =
            ["203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.5", "203.0.113.6"];
        let balancer: Vec<_> = BEHIND.iter().map(|other| ("10.0.0.3", AddressKind::Forwarded, *other)).collect();
        let said = warned(&balancer);
        let expected = "10.0.0.3 makes 6 of 6 calls, and `x_forwarded_for` has 6 different values; if 10.0.0.3 is a balancer, \
                        add --client last-forwarded";
        assert_eq!(said[0], expected);
        let direct: Vec<_> = BEHIND.iter().map(|client| (*client, AddressKind::Forwarded, "-")).collect();
        assert!(warned(&direct).is_empty());
        let one: Vec<_> = BEHIND.iter().map(|_| ("10.0.0.3", AddressKind::Forwarded, "203.0.113.1")).collect();
        assert_eq!(warned(&one).len(), 1, "several addresses, and no balancer");
    }

    #[test]
    fn a_few_addresses_with_many_behind_them_are_suspicious() {
        let of = |edges: usize, callers: usize| {
            let call = |number: usize| {
                let other = format!("198.51.{}.{}", number % callers / 250, number % callers % 250);
                (format!("203.0.113.{}", number % edges), AddressKind::Forwarded, other)
            };
            let calls: Vec<_> = (0..edges * callers).map(call).collect();
            warned(&calls)[0].clone()
        };
        let expected = "only 3 addresses, such as 203.0.113.0, make all 165 calls, and `x_forwarded_for` has 55 different values; \
                        if they are balancers, add --client last-forwarded";
        assert_eq!(of(3, 55), expected);
        assert!(of(140, 1_401).starts_with("only 140 addresses"));
        for (edges, callers) in [(3, 29), (2, 19)] {
            assert!(of(edges, callers).starts_with("lines have several addresses"), "{edges} {callers}");
        }
    }

    /// 10.0.0.1 is no part of 10.0.0.17.
    #[test]
    fn an_address_that_begins_like_the_client_is_another_one() {
        let calls: Vec<_> =
            (10..20).map(|number| ("10.0.0.1", AddressKind::Forwarded, format!("10.0.0.{number}"))).collect();
        assert!(warned(&calls)[0].starts_with("10.0.0.1 makes 10 of 10 calls"));
    }
}
