//! The cookbook, `docs/cookbook.md`: each recipe is enforced as printed there.

use serde_json::{Value, json};

use crate::support::{Client, Up, file};

type Recipe = (&'static str, fn(&mut Kitchen));

/// Recipes in order: title, and check.
const RECIPES: [Recipe; 10] = [
    ("A quota by plan", plans),
    ("Five logins in 15 minutes", logins),
    ("A quota per endpoint", endpoints),
    ("Bytes instead of calls", bytes),
    ("Tokens of a language model", tokens),
    ("A burst after idle time", burst),
    ("A queue before a slow backend", queue),
    ("Two exports at a time", exports),
    ("A cost per endpoint", costs),
    ("Allow list, deny list and a rule in shadow", lists),
];

/// Running `tollgate up` with one recipe.
struct Kitchen {
    client: Client,
    _up: Up,
}

impl Kitchen {
    fn ask(&mut self, descriptors: impl Into<Value>, cost: u64) -> (u16, Value) {
        let answer = self.client.post(&json!({ "descriptors": descriptors.into(), "cost": cost }).to_string());
        (answer.status, answer.json())
    }

    fn pass(&mut self, descriptors: &Value, calls: usize) -> usize {
        (0..calls).filter(|_| self.ask(descriptors.clone(), 1).0 == 200).count()
    }

    fn say(&mut self, path: &str, body: &Value) -> Value {
        self.client.send("POST", path, &[], &body.to_string());
        let answer = self.client.receive();
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer.json()
    }
}

/// Returns the recipes of the cookbook: title and file.
pub(crate) fn recipes() -> Vec<(String, String)> {
    let cookbook = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/cookbook.md")).unwrap();
    let recipe = |text: &str| {
        let (title, rest) = text.split_once('\n').expect("a title");
        let (_, yaml) = rest.split_once("```yaml\n").unwrap_or_else(|| panic!("`{title}` has no file"));
        (title.to_owned(), yaml.split_once("```").expect("an end").0.to_owned())
    };
    cookbook.split("\n## ").skip(1).map(recipe).collect()
}

/// Every recipe of the cookbook has a check.
#[test]
fn every_recipe_of_the_cookbook_has_its_described_effect() {
    let recipes = recipes();
    assert_eq!(recipes.len(), RECIPES.len());
    for (number, ((title, yaml), (named, run))) in recipes.iter().zip(RECIPES).enumerate() {
        assert_eq!(title, named);
        let path = file(&format!("cookbook-{number}.yaml"), yaml);
        let up = Up::start(&["--rules", path.to_str().unwrap()]);
        run(&mut Kitchen { client: up.client(), _up: up });
    }
}

/// F2, G6: three keys get three quotas, and one key has its own.
fn plans(kitchen: &mut Kitchen) {
    for (key, quota) in [("sk_free_1", 100), ("sk_pro_1", 1000), ("sk_ent_1", 10_000), ("sk_pro_vip", 5000)] {
        assert_eq!(kitchen.ask(json!({ "api_key": key }), 1).1["limit"], quota, "{key}");
        let by_header = kitchen.client.get("/check", &[("x-api-key", key)]);
        assert_eq!(by_header.json()["remaining"], quota - 2, "{key}");
    }
}

/// K6: the sixth attempt is denied, and another address is not affected.
fn logins(kitchen: &mut Kitchen) {
    let from = |ip: &str| json!({ "ip": ip, "endpoint": "/login", "method": "POST" });
    assert_eq!(kitchen.pass(&from("10.0.0.1"), 8), 5);
    assert_eq!(kitchen.pass(&from("10.0.0.2"), 1), 1);
    assert_eq!(kitchen.ask(json!({ "ip": "10.0.0.1", "endpoint": "/login", "method": "GET" }), 1).0, 200);
}

/// B5: limits per user, endpoint and tenant at once; a denial charges none of them.
fn endpoints(kitchen: &mut Kitchen) {
    let call = |user: &str, path: &str| json!({ "user": user, "endpoint": path, "tenant": "t" });
    assert_eq!(kitchen.pass(&call("u1", "/search/all"), 40), 30);
    assert_eq!(kitchen.pass(&call("u1", "/users"), 210), 200);
    let (_, left) = kitchen.ask(json!({ "tenant": "t" }), 1);
    assert_eq!(left["remaining"], 1000 - 230 - 1, "what was refused cost the tenant nothing");
    assert_eq!(kitchen.pass(&json!({ "tenant": "t" }), 900), 1000 - 231);
    let (status, body) = kitchen.ask(call("u2", "/users"), 1);
    assert_eq!((status, &body["rule"]), (429, &"tenant".into()), "the user is under his own");
}

/// F15: a quota in bytes, and a cost in bytes.
fn bytes(kitchen: &mut Kitchen) {
    let tenant = || json!({ "tenant": "t" });
    assert_eq!(kitchen.ask(tenant(), 50_000_000).0, 200);
    let (status, body) = kitchen.ask(tenant(), 20_000_000);
    assert_eq!(status, 429);
    assert!((1_000..=2_000).contains(&body["retry_after_ms"].as_u64().unwrap()), "{body}");
    assert!(kitchen.ask(tenant(), 60_000_000).1["detail"].as_str().unwrap().contains("can never pass"));
}

/// B8: the real cost is settled after the answer; a fixed cost stays.
fn tokens(kitchen: &mut Kitchen) {
    let user = || json!({ "user": "u" });
    assert_eq!(kitchen.ask(user(), 60_000).0, 200);
    let settled = kitchen.say("/settle", &json!({ "descriptors": user(), "units": 35_000 }));
    assert_eq!((&settled["rule"], &settled["remaining"]), (&"tokens".into(), &5_000.into()));
    assert_eq!(kitchen.ask(user(), 6_000).0, 429);
    let (status, body) = kitchen.ask(user(), 5_000);
    assert_eq!((status, &body["rule"], &body["remaining"]), (200, &"tokens".into(), &0.into()));
}

/// A7: idle at 1000/min: 1200 pass at once.
fn burst(kitchen: &mut Kitchen) {
    assert_eq!(kitchen.pass(&json!({ "api_key": "k" }), 1_300), 1_200);
}

/// A8: the answers carry delays, and a full queue denies.
fn queue(kitchen: &mut Kitchen) {
    let call = json!({ "endpoint": "/legacy/x" });
    let answers: Vec<_> = (0..12).map(|_| kitchen.ask(call.clone(), 1)).collect();
    let delays: Vec<u64> = answers.iter().filter_map(|(_, body)| body["delay_ms"].as_u64()).collect();
    assert!(answers.iter().any(|(status, _)| *status == 429));
    assert!(delays.len() >= 4 && delays.is_sorted() && delays.iter().all(|ms| *ms <= 400), "{delays:?}");
}

fn exports(kitchen: &mut Kitchen) {
    let call = || json!({ "user": "u", "endpoint": "/export" });
    let (_, first) = kitchen.ask(call(), 1);
    assert_eq!(kitchen.pass(&call(), 5), 1);
    kitchen.say("/release", &json!({ "descriptors": call(), "id": first["id"] }));
    assert_eq!(kitchen.pass(&call(), 5), 1);
}

/// B8: a cost from a table per endpoint.
fn costs(kitchen: &mut Kitchen) {
    let call = |path: &str| json!({ "api_key": "k", "endpoint": path });
    assert_eq!(kitchen.ask(call("/search/all"), 1).1["remaining"], 95);
    assert_eq!(kitchen.ask(call("/report/7"), 1).1["remaining"], 75);
    assert_eq!(kitchen.ask(call("/other"), 1).1["remaining"], 74);
}

/// G8: a listed key is never denied, and still counted. G9: a listed one is always denied. A rule in shadow denies none.
fn lists(kitchen: &mut Kitchen) {
    assert_eq!(kitchen.pass(&json!({ "api_key": "sk_monitoring_1" }), 9), 9);
    assert_eq!(kitchen.ask(json!({ "api_key": "sk_monitoring_1" }), 1).1["remaining"], 0);
    assert_eq!(kitchen.pass(&json!({ "api_key": "sk_revoked_1" }), 3), 0);
    assert_eq!(kitchen.pass(&json!({ "api_key": "k", "ip": "203.0.113.9" }), 3), 0);
    assert_eq!(kitchen.pass(&json!({ "api_key": "k", "ip": "203.0.114.9" }), 5), 3);
    let metrics = kitchen.client.get("/metrics", &[]);
    assert!(metrics.text().contains("tollgate_shadow_denials_total{rule=\"stricter\"} "), "{}", metrics.text());
    // The header is verified, so it selects an entry of the allow list.
    let by_header = |client: &mut Client| client.get("/check", &[("x-api-key", "sk_monitoring_2")]).status;
    assert_eq!((0..9).filter(|_| by_header(&mut kitchen.client) == 200).count(), 9);
}
