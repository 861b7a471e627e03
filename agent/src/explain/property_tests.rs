//! Property of explanations: the rules that are explained for a request are those by which the agent decides it.

use std::net::IpAddr;

use http::HeaderMap;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate_core::rules::{DescriptorSource, DescriptorSpec, Rule};

use super::*;
use crate::Agent;
use crate::request::Request;

const METHODS: [&str; 5] = ["GET", "get", "Post", "POST", "delete"];
const ADDRESSES: [&str; 8] = [
    "10.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::a00:1",
    "64:ff9b:1::a00:1",
    "2001:db8::1",
    "2001:db8:0:0:7::2",
    "2002:a00:1::1",
];
const SEGMENTS: [&str; 14] = [
    "users",
    "123",
    "7",
    "deadbeef01",
    "deadbeef",
    "123e4567-e89b-12d3-a456-426614174000",
    "search",
    "%73earch",
    "v1;x=2",
    "",
    ".",
    "..",
    "é",
    "last%20",
];
const ENDS: [&str; 6] = ["", "", "/", "?page=2", "?a=/b/../c", "#top"];

/// A request as a person writes it.
#[derive(Clone, Debug)]
struct Written {
    method: &'static str,
    path: String,
    address: &'static str,
    is_forwarded: bool,
    api_key: Option<&'static str>,
}

fn path() -> impl Strategy<Value = String> {
    let segments = prop::collection::vec(select(&SEGMENTS[..]), 0..4);
    (select(&["/", "/", "/", "//", ""][..]), segments, select(&ENDS[..]))
        .prop_map(|(start, segments, end)| format!("{start}{}{end}", segments.join("/")))
}

fn written() -> impl Strategy<Value = Written> {
    let api_key = select(&[None, Some("k1"), Some("k2")][..]);
    (select(&METHODS[..]), path(), select(&ADDRESSES[..]), any::<bool>(), api_key).prop_map(
        |(method, path, address, is_forwarded, api_key)| Written { method, path, address, is_forwarded, api_key },
    )
}

/// Descriptors of which the rules may be; those of addresses come from the peer or from a header.
fn specs(is_forwarded: bool, is_raw: bool) -> Vec<DescriptorSpec> {
    let mut specs = DescriptorSpec::defaults();
    for spec in &mut specs {
        match &mut spec.source {
            DescriptorSource::ClientIp { trusted_hops, .. } => *trusted_hops = u8::from(is_forwarded),
            DescriptorSource::Path { normalized } => *normalized = !is_raw,
            _ => {}
        }
    }
    specs
}

impl Written {
    /// Returns the call that names the request as it is written.
    fn named(&self) -> Call<'_> {
        let call = Call::new().with("ip", self.address).with("method", self.method).with("endpoint", &*self.path);
        match self.api_key {
            Some(key) => {
                let mut call = call;
                call.set_unverified("api_key".into(), key.into());
                call
            }
            None => call,
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Some(key) = self.api_key {
            headers.insert("x-api-key", key.parse().expect("a key"));
        }
        if self.is_forwarded {
            headers.insert("x-forwarded-for", self.address.parse().expect("an address"));
        }
        headers
    }

    fn peer(&self) -> IpAddr {
        if self.is_forwarded { [127, 0, 0, 1].into() } else { self.address.parse().expect("an address") }
    }
}

/// Returns a pattern of one of the forms that a file has, about this text.
fn pattern(form: usize, text: &str) -> Pattern {
    let half = text.chars().take(text.chars().count() / 2).collect::<String>();
    match form {
        0 => Pattern::Prefix(half.into()),
        1 => Pattern::parse(&format!("{half}*")),
        2 => Pattern::Not(vec![Pattern::Exact(text.into())].into()),
        3 => Pattern::Any(vec![Pattern::Exact("/other".into()), Pattern::Exact(text.into())].into()),
        _ => text.parse().map_or_else(|_| Pattern::Exact(text.into()), |address: IpAddr| Pattern::Cidr(address.into())),
    }
}

/// One rule: a condition on a value as it is written, as a request has it, or of another request.
fn rule(of: Written, specs: Vec<DescriptorSpec>) -> impl Strategy<Value = Rule> {
    let per = prop::sample::subsequence(vec!["ip", "method", "endpoint", "api_key"], 0..3);
    let condition = (0..4_usize, 0..4_usize, path(), prop::option::of(0..5_usize));
    let cost = prop::option::of(1..3_u64);
    let drawn = (per, prop::collection::vec(condition, 0..3), 1..4_u64, 0..8_u8, cost);
    drawn.prop_map(move |(per, conditions, quota, kind, cost)| {
        let mut rule = Rule::per("", &per, format!("{quota}/h").parse().expect("a quota"));
        for (descriptor, form, other, wild) in conditions {
            let (name, value, other) = [
                ("ip", of.address, ADDRESSES[other.len() % ADDRESSES.len()]),
                ("method", of.method, METHODS[other.len() % METHODS.len()]),
                ("endpoint", &*of.path, &*other),
                ("api_key", of.api_key.unwrap_or("k3"), "k2"),
            ][descriptor];
            let source = &specs.iter().find(|spec| *spec.name == *name).expect("it is declared").source;
            let text = match form {
                0 => value.to_owned(),
                1 | 2 => source.value_of(value.into()).into_owned(),
                _ => other.to_owned(),
            };
            // A condition on the same value twice would be the same condition.
            if rule.matches.iter().all(|(known, _)| **known != *name) {
                let pattern = wild.map_or_else(|| Pattern::Exact((&*text).into()), |wild| pattern(wild, &text));
                rule.matches.push((name.into(), pattern));
            }
        }
        rule.group = (kind % 3 == 1).then(|| "group".into());
        rule.shadow = kind == 5;
        rule.cost = cost;
        rule.deny = kind == 6 && !rule.matches.is_empty();
        if rule.deny {
            (rule.policy, rule.cost) = (None, None);
            rule.per.clear();
        }
        rule
    })
}

fn request_and_rules() -> impl Strategy<Value = (Written, RuleSet)> {
    (written(), prop::bool::weighted(0.2)).prop_flat_map(|(request, is_raw)| {
        let specs = specs(request.is_forwarded, is_raw);
        let rules = prop::collection::vec(rule(request.clone(), specs.clone()), 1..4);
        let listed = prop::option::weighted(0.2, (any::<bool>(), select(&ADDRESSES[..])));
        (Just(request), rules, listed).prop_map(move |(request, mut rules, listed)| {
            for (rule, name) in rules.iter_mut().zip(["first", "second", "third"]) {
                rule.name = name.into();
            }
            let mut set = RuleSet::new(1, rules);
            set.descriptors.clone_from(&specs);
            if let Some((is_allowed, address)) = listed {
                let list = if is_allowed { &mut set.lists.allow } else { &mut set.lists.deny };
                list.push(vec![("ip".into(), Pattern::Exact(address.into()))]);
            }
            (request, set)
        })
    })
}

/// Returns whether each of five calls was admitted, and the rule that the agent named.
fn decisions(set: &RuleSet, request: &Written) -> Vec<(bool, Option<String>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let agent = Agent::builder().rules(set.clone()).start().expect("an agent");
        let headers = request.headers();
        let parts =
            Request { method: request.method, path: &request.path, peer: Some(request.peer()), headers: &headers };
        let call = agent.describe(&parts);
        let mut decisions = Vec::new();
        for _ in 0..5 {
            let decision = agent.decide(&call).await;
            decisions.push((decision.allowed, decision.status.map(|status| status.rule.to_string())));
        }
        decisions
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_explained_rules_of_a_request_are_those_that_decide_it((request, set) in request_and_rules()) {
        let explained = explain(&set, Some(&DigestKey::default()), &set.as_requested(request.named()));
        let applying: Vec<&Value> =
            explained["rules"].as_array().expect("rules").iter().filter(|rule| rule["applies"] == true).collect();
        let names = |is_meant: &dyn Fn(&Value) -> bool| -> Vec<Option<String>> {
            applying.iter().filter(|rule| is_meant(rule)).map(|rule| rule["rule"].as_str().map(str::to_owned)).collect()
        };
        let denying = names(&|rule| rule["deny"] == true);
        let limits = |rule: &Value| rule["deny"] == false && rule["shadow"] == false;
        // Number of calls that a rule admits.
        let quota = |rule: &Value| Some(rule["policy"]["units"].as_u64()? / rule["cost"].as_u64()?);
        let least = applying.iter().filter(|rule| limits(rule)).filter_map(|rule| quota(rule)).min();
        let owners = names(&|rule| limits(rule) && quota(rule) == least);
        for (number, (allowed, rule)) in (1..).zip(decisions(&set, &request)) {
            let by_rules = denying.is_empty() && least.is_none_or(|least| number <= least);
            let is_admitted = explained["list"] != "deny" && (by_rules || explained["list"] == "allow");
            prop_assert_eq!(allowed, is_admitted, "call {} by {:?}: {}", number, rule, explained);
            if !explained["list"].is_null() {
                continue;
            }
            let told = match (denying.is_empty(), least) {
                (false, _) => &denying,
                (true, Some(_)) if !allowed => &owners,
                (true, Some(_)) => &names(&limits),
                (true, None) => &names(&|rule| rule["shadow"] == true),
            };
            prop_assert!(told.contains(&rule) || told.is_empty() && rule.is_none(), "{:?}: {}", rule, explained);
        }
    }
}
