//! Recording of calls, in order of time.
//!
//! A recording stores each text once and each call in a few words, so a log of many millions of lines fits in memory.

use std::borrow::Cow;
use std::collections::BTreeSet;

use foldhash::fast::RandomState;
use indexmap::IndexSet;
use tollgate::request::normalize;
use tollgate::{Call, RuleSet};
use tollgate_core::clock::Timestamp;
use tollgate_core::rules::DescriptorSource;

use super::log::{LogCall, LoggedClient};

const IPV6_PREFIX: u8 = 64;

/// Calls in order of time; ties in order of the files.
#[derive(Debug, Default)]
pub struct Recording {
    /// Distinct texts; a pair names them by their indexes.
    texts: IndexSet<Box<str>, RandomState>,
    pairs: Vec<(u32, u32)>,
    calls: Vec<RecordedCall>,
}

#[derive(Clone, Copy, Debug)]
struct RecordedCall {
    time_ms: u64,
    cost: u64,
    first_pair: u32,
    pairs: u32,
}

impl Recording {
    /// Returns the number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns the times of the first and the last call.
    #[must_use]
    pub fn span(&self) -> Option<(Timestamp, Timestamp)> {
        let (first, last) = (self.calls.first()?, self.calls.last()?);
        Some((Timestamp::from_ms(first.time_ms), Timestamp::from_ms(last.time_ms)))
    }

    /// Returns the names of all descriptors that some call has, in the order of their first occurrence.
    #[must_use]
    pub fn descriptors(&self) -> Vec<&str> {
        let names: BTreeSet<u32> = self.pairs.iter().map(|(name, _)| *name).collect();
        names.into_iter().map(|name| &*self.texts[name as usize]).collect()
    }

    /// Returns the calls with their times, in order.
    pub fn calls(&self) -> impl Iterator<Item = (Timestamp, Call<'_>)> {
        self.calls.iter().map(|recorded| {
            let pairs = &self.pairs[recorded.first_pair as usize..][..recorded.pairs as usize];
            let mut call = Call::new().costing(recorded.cost);
            for (name, value) in pairs {
                let text = |index: u32| Cow::Borrowed(&*self.texts[index as usize]);
                call.set(text(*name), text(*value));
            }
            (Timestamp::from_ms(recorded.time_ms), call)
        })
    }

    /// Sorts the calls by time. Ties stay in the order of the files.
    pub(super) fn sort(&mut self) {
        self.calls.sort_by_key(|call| call.time_ms);
    }

    /// Adds a call with `ip`, `method`, `endpoint`, `status`, `user` and `user_agent`, the descriptors that the rules declare over
    /// the same fields, and those of the line itself.
    pub(super) fn add(
        &mut self,
        call: &LogCall<'_>,
        client: Option<&LoggedClient>,
        rules: &RuleSet,
    ) -> Result<(), String> {
        let first_pair = self.pairs.len();
        for (name, value) in &call.descriptors {
            self.add_pair(name, value);
        }
        let ip = |prefix: u8| client.map(|client| Cow::Owned(client.value(prefix)));
        let (method, path) = (call.request.method.as_deref(), call.request.path.as_deref());
        let raw = path.and_then(|path| path.split(['?', '#']).next());
        let of_line = |name: &str| call.descriptors.iter().any(|(known, _)| known == name);
        for spec in rules.descriptors.iter().filter(|spec| !of_line(&spec.name)) {
            let value = match &spec.source {
                DescriptorSource::ClientIp { ipv6_prefix, .. } => ip(*ipv6_prefix),
                DescriptorSource::Method => method.map(Cow::Borrowed),
                DescriptorSource::Path { normalized: true } => path.map(normalize),
                DescriptorSource::Path { normalized: false } => raw.map(Cow::Borrowed),
                DescriptorSource::Header(header) if &**header == "user-agent" => {
                    call.user_agent.as_deref().map(Cow::Borrowed)
                }
                // An access log has no other part of a request.
                _ => None,
            };
            if let Some(value) = value {
                self.add_pair(&spec.name, &value);
            }
        }
        let declared = |name: &str| rules.descriptors.iter().any(|spec| *spec.name == *name);
        let further = [
            ("ip", ip(IPV6_PREFIX)),
            ("method", method.map(Cow::Borrowed)),
            ("endpoint", path.map(normalize)),
            ("status", call.status.as_deref().map(Cow::Borrowed)),
            ("user", call.user.as_deref().map(Cow::Borrowed)),
            ("user_agent", call.user_agent.as_deref().map(Cow::Borrowed)),
        ];
        for (name, value) in further {
            if let Some(value) = value.filter(|_| !declared(name) && !of_line(name)) {
                self.add_pair(name, &value);
            }
        }
        let number = |count: usize| u32::try_from(count).map_err(|_| "more descriptors than fit in memory".to_owned());
        let (first_pair, pairs) = (number(first_pair)?, number(self.pairs.len() - first_pair)?);
        self.calls.push(RecordedCall { time_ms: call.time_ms, cost: call.cost.unwrap_or(1), first_pair, pairs });
        Ok(())
    }

    fn add_pair(&mut self, name: &str, value: &str) {
        let mut index_of = |text: &str| {
            let known = self.texts.get_index_of(text);
            let index = known.unwrap_or_else(|| self.texts.insert_full(text.into()).0);
            u32::try_from(index).expect("fewer than four thousand million different texts")
        };
        let pair = (index_of(name), index_of(value));
        self.pairs.push(pair);
    }
}
