//! An imported configuration of envoyproxy/ratelimit, seen by each way to ask about a call.

use serde_json::{Value, json};
use tollgate::{Agent, Call, RulesSource};
use tollgate_core::counter::DigestKey;
use tollgate_core::rules::problem::Problem;
use tollgate_rules::import::{EnvoySettings, Foreign, from_envoy};

use crate::support::{Client, Sidecar};

const CONFIG: &str = "domain: web
descriptors:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 20 }
    descriptors:
      - { key: path, value: /users/123, rate_limit: { unit: hour, requests_per_unit: 10 } }
      - key: method
        value: get
        rate_limit: { unit: hour, requests_per_unit: 30 }
        descriptors:
          - { key: path, rate_limit: { unit: day, requests_per_unit: 40 } }
  - { key: user, value: root, rate_limit: { unlimited: true } }
  - { key: method, value: get, rate_limit: { unit: minute, requests_per_unit: 5 } }
  - { key: ip, value: '2001:db8::1', rate_limit: { unit: minute, requests_per_unit: 6 } }
  - key: ip
    descriptors:
      - { key: endpoint, value: '/users/123?x', rate_limit: { unit: minute, requests_per_unit: 7 } }
  - { key: path, value: /closed, rate_limit: { unit: day, requests_per_unit: 0 } }
";
const ENTRIES: [(&str, &str); 10] = [
    ("user", "u1"),
    ("user", "root"),
    ("method", "get"),
    ("method", "GET"),
    ("ip", "2001:db8::1"),
    ("ip", "10.0.0.1"),
    ("endpoint", "/users/123?x"),
    ("path", "/users/123"),
    ("path", "/closed"),
    ("other", "x"),
];

type Entries<'e> = Vec<(&'e str, &'e str)>;

/// Returns all lists of up to three entries with different keys.
fn lists() -> Vec<Entries<'static>> {
    let longer = |list: &Entries<'static>| -> Vec<Entries<'static>> {
        let others = ENTRIES.iter().filter(|(key, _)| list.iter().all(|(own, _)| own != key));
        others.map(|entry| [&list[..], &[*entry]].concat()).collect()
    };
    let one = longer(&Vec::new());
    let two: Vec<_> = one.iter().flat_map(longer).collect();
    let three: Vec<_> = two.iter().flat_map(longer).collect();
    [one, two, three].concat()
}

fn applying(explained: &Value) -> Vec<String> {
    let rules = explained["rules"].as_array().unwrap().iter().filter(|rule| rule["applies"] == true);
    rules.map(|rule| rule["rule"].as_str().unwrap().to_owned()).collect()
}

/// Returns the rule that `/json` names in its headers, and its decision.
async fn by_json(client: &mut Client, entries: &Entries<'_>) -> (Option<String>, bool) {
    let entries: Vec<Value> = entries.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
    let body = json!({ "domain": "web", "descriptors": [{ "entries": entries }], "hitsAddend": 0 });
    let answer = client.ask("POST", "/json", &[], body.to_string()).await;
    let rule = answer.headers.get("ratelimit-policy").and_then(|policy| policy.to_str().ok()?.split('"').nth(1));
    (rule.map(ToOwned::to_owned), answer.json()["overallCode"] == "OK")
}

/// `/json`, `/check`, `/explain` and `rules show` agree about each descriptor, nested or not.
#[tokio::test]
async fn every_way_to_ask_about_a_nested_descriptor_agrees() {
    let folder = std::env::temp_dir().join(format!("tollgate-imported-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("web.yaml"), CONFIG).unwrap();
    let agent = Agent::builder().rules_from(RulesSource::Envoy(folder.clone(), EnvoySettings::default())).start();
    std::fs::remove_dir_all(folder).unwrap();
    let mut client = Sidecar::of(agent.unwrap()).await.client().await;
    let imported = from_envoy(&[Foreign { name: "web.yaml", text: CONFIG }], &EnvoySettings::default()).unwrap();
    let file = tollgate_rules::from_yaml("rules.yaml", &imported.text, 1).unwrap();
    let is_part = |warning: &Problem| warning.text.contains("never matches");
    assert!(!file.warnings.iter().any(is_part), "no entry is taken for a part of a request");
    let (mut limited, mut denied) = (0, 0);
    for entries in lists() {
        let (rule, allowed) = by_json(&mut client, &entries).await;
        let descriptors: Vec<(&str, &str)> = [&[("domain", "web")], &entries[..]].concat();
        let texts: Vec<String> = descriptors.iter().map(|(name, value)| format!(r#""{name}": "{value}""#)).collect();
        let body = |cost: &str| format!(r#"{{"descriptors": {{{}}}{cost}}}"#, texts.join(", "));
        let checked = client.post(body(r#", "cost": 0"#)).await.json();
        let explained = applying(&client.ask("POST", "/explain", &[], body("")).await.json());
        let call = descriptors.iter().fold(Call::new(), |call, (name, value)| call.with(*name, *value));
        let shown = tollgate::explain::explain(&file, Some(&DigestKey::default()), &file.as_requested(call));
        assert_eq!(applying(&shown), explained, "{entries:?}");
        // A call names its descriptors in any order. The tree has one order of each set of keys.
        let is_in_order = rule.is_some() || explained.is_empty();
        let is_unlimited = entries == [("user", "root")];
        if is_in_order && !is_unlimited {
            assert_eq!(explained, Vec::from_iter(rule.clone()), "{entries:?}");
            assert_eq!((checked["rule"].as_str(), checked["allowed"].as_bool()), (rule.as_deref(), Some(allowed)));
            limited += usize::from(rule.is_some());
            denied += usize::from(!allowed);
        } else if !is_unlimited {
            let mut sorted = entries.clone();
            sorted
                .sort_by_key(|(key, _)| ["user", "ip", "method", "endpoint", "path"].iter().position(|own| own == key));
            assert_ne!(sorted, entries, "the entries stand in another order than in the tree");
        }
    }
    assert_eq!((limited, denied), (9, 1));
}
