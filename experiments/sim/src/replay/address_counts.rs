//! Counts of the addresses of calls, to find a log whose calls all seem to come from a balancer.

use std::collections::{BTreeMap, HashMap, HashSet};

use foldhash::fast::RandomState;

use super::log::{AddressKind, LogCall, LoggedClient};

/// Maximum number of different texts of a field that are counted.
const DIFFERENT_MAX: usize = 100_000;
/// Smallest number of calls from which one address is suspicious.
const CALLS_MIN: u64 = 5;

/// Calls by client, and the different texts of the other fields with addresses.
#[derive(Debug, Default)]
pub(super) struct AddressCounts {
    calls: u64,
    clients: HashMap<String, u64, RandomState>,
    others: BTreeMap<String, HashSet<Box<str>, RandomState>>,
    hosts: u64,
    several: Option<String>,
}

impl AddressCounts {
    /// Counts a call. A client that the user has chosen is not in doubt.
    pub(super) fn add(&mut self, call: &LogCall<'_>, client: &LoggedClient, is_chosen: bool) {
        self.hosts += u64::from(matches!(client, LoggedClient::Host(_)));
        if is_chosen {
            return;
        }
        self.calls += 1;
        let shown = client.to_string();
        let is_other = |text: &str| !text.contains(&*shown);
        let mut of_server = 0;
        for field in call.addresses.iter().filter(|field| is_other(&field.text)) {
            of_server += u32::from(field.kind == AddressKind::Client);
            let texts = self.others.entry(field.name.to_string()).or_default();
            if texts.len() < DIFFERENT_MAX {
                texts.insert((*field.text).into());
            }
        }
        if of_server > 0 && self.several.is_none() {
            self.several = Some(shown.clone());
        }
        if self.clients.len() < DIFFERENT_MAX || self.clients.contains_key(&shown) {
            *self.clients.entry(shown).or_default() += 1;
        }
    }

    /// Returns sentences about clients that may be the wrong ones.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let most = self.clients.iter().max_by(|a, b| a.1.cmp(b.1).then_with(|| b.0.cmp(a.0)));
        let varied = self.others.iter().max_by_key(|(_, texts)| texts.len());
        if let (Some((client, calls)), Some((field, texts))) = (most, varied)
            && self.calls >= CALLS_MIN
            && calls * 2 > self.calls
            && texts.len() >= 2 * self.clients.len()
        {
            let choice = if field == "x_forwarded_for" { "last-forwarded" } else { field };
            warnings.push(format!(
                "{client} makes {calls} of {} calls, and `{field}` has {} different values; if {client} is a balancer, add \
                 --client {choice}",
                self.calls,
                texts.len()
            ));
        }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(calls: &[(&'static str, AddressKind, &'static str)]) -> Vec<String> {
        let mut counts = AddressCounts::default();
        for (client, kind, other) in calls {
            let mut call = LogCall::default();
            call.add_address(AddressKind::Client, "first", *client);
            call.add_address(*kind, "x_forwarded_for", *other);
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
        assert_eq!(said, [expected]);
        let direct: Vec<_> = BEHIND.iter().map(|client| (*client, AddressKind::Forwarded, "-")).collect();
        assert!(warned(&direct).is_empty());
        let one: Vec<_> = BEHIND.iter().map(|_| ("10.0.0.3", AddressKind::Forwarded, "203.0.113.1")).collect();
        assert!(warned(&one).is_empty());
    }
}
