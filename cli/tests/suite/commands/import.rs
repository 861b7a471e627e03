//! Configurations of other limiters, enforced with their meaning.

use serde_json::json;

use crate::support::{Client, Up, file, finish, tollgate, wait_for};

/// The "Config Schema" of a widely read rate limiter design.
const PARAMS: &str = r#"
rules:
  - id: "rule_001"
    version: 42
    tier: "pro"
    match:
      api_key_pattern: "sk_prod_*"
      endpoint_regex: "^/v1/orders.*"
    algorithm: "token_bucket"
    params:
      capacity: 100          # Maximum tokens (burst size)
      refill_rate: 1.67      # Tokens per second (100/min)
      window: 60
    override:
      "sk_prod_vip_001":
        capacity: 1000
        refill_rate: 16.67
  - id: "rule_002"
    tier: "free"
    match:
      api_key_pattern: "sk_free_*"
      endpoint_regex: ".*"
    algorithm: "sliding_window_counter"
    params:
      limit: 100
      window: 60
whitelist:
  - "sk_internal_*"
  - "sk_monitoring_*"
blacklist:
  - "sk_revoked_*"
  - "sk_abuse_flagged_*"
"#;

const ENVOY: &str = "domain: web
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 2 }
";

fn passes(client: &mut Client, descriptors: &serde_json::Value, calls: usize) -> usize {
    let body = json!({ "descriptors": descriptors }).to_string();
    (0..calls).filter(|_| client.post(&body).status == 200).count()
}

/// F1: the document's YAML loads and decides as written.
#[test]
fn rules_with_params_are_imported_and_decide_as_written() {
    let document = file("params.yaml", PARAMS);
    let imported = finish(tollgate(&["rules", "import"]).arg(&document));
    assert_eq!(imported.exit, 0, "{}", imported.err);
    assert!(imported.err.contains("2 rules imported"), "{}", imported.err);
    let rules = file("params-imported.yaml", &imported.out);
    let up = Up::start(&["--rules", rules.to_str().unwrap()]);
    let mut client = up.client();
    let call = |key: &str, endpoint: &str| json!({ "api_key": key, "endpoint": endpoint, "path": endpoint });
    let orders = passes(&mut client, &call("sk_prod_1", "/v1/orders/7"), 130);
    assert!((100..=110).contains(&orders), "the bucket, and what dripped in meanwhile: {orders}");
    assert_eq!(passes(&mut client, &call("sk_prod_1", "/v2/other"), 130), 130, "no rule speaks of it");
    let vip = passes(&mut client, &call("sk_prod_vip_001", "/v1/orders"), 300);
    assert_eq!(vip, 300);
    assert_eq!(passes(&mut client, &call("sk_free_1", "/anything"), 130), 100);
    assert_eq!(passes(&mut client, &call("sk_internal_1", "/anything"), 130), 130);
    assert_eq!(passes(&mut client, &call("sk_abuse_flagged_1", "/anything"), 3), 0);
    let health = client.get("/healthz", &[]).json();
    assert_eq!(health["generation"], 42);
}

#[test]
fn a_part_that_cannot_be_imported_is_reported_with_its_place() {
    let broken = file("params-broken.yaml", &PARAMS.replace("refill_rate: 1.67 ", "refil_rate: 1.67 "));
    let refused = finish(tollgate(&["rules", "import"]).arg(&broken));
    assert_eq!((refused.exit, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("params-broken.yaml:12: unknown field `refil_rate`"), "{}", refused.err);
    let missing = finish(&mut tollgate(&["rules", "import", "nowhere"]));
    assert_eq!(missing.exit, 2);
    let expected = "name a folder of envoyproxy/ratelimit, or a file: nowhere: No such file";
    assert!(missing.err.contains(expected), "{}", missing.err);
}

/// A configuration of envoyproxy/ratelimit is enforced and followed unchanged. A broken file changes nothing.
#[test]
fn a_folder_of_envoy_is_enforced_and_followed() {
    let web = file("envoy/web.yaml", ENVOY);
    let folder = web.parent().unwrap().to_str().unwrap();
    let agent = Up::of(&mut tollgate(&["agent", "--http", "127.0.0.1:0", "--envoy-config", folder]));
    let mut client = agent.client();
    let ask = |client: &mut Client, user: &str| {
        let entries = json!({ "entries": [{ "key": "user", "value": user }] });
        let body = json!({ "domain": "web", "descriptors": [entries] }).to_string();
        client.send("POST", "/json", &[], &body);
        client.receive()
    };
    let limit = |client: &mut Client, user: &str| {
        let answer = ask(client, user).json();
        answer["statuses"][0]["currentLimit"]["requestsPerUnit"].as_u64()
    };
    let statuses: Vec<u16> = (0..4).map(|_| ask(&mut client, "u1").status).collect();
    assert_eq!(statuses, [200, 200, 429, 429]);
    assert_eq!(passes(&mut client, &json!({ "domain": "web", "user": "u2" }), 4), 2, "flat calls meet the same limits");

    file("envoy/web.yaml", &ENVOY.replace("unit: hour", "unit: fortnight"));
    let error = wait_for("the broken file to be refused", || {
        client.get("/healthz", &[]).json()["rules_error"].as_str().map(ToOwned::to_owned)
    });
    assert!(error.contains("web.yaml:4:") && error.contains("fortnight"), "{error}");
    assert_eq!(limit(&mut client, "u3"), Some(2));

    file("envoy/web.yaml", &ENVOY.replace("requests_per_unit: 2", "requests_per_unit: 5"));
    wait_for("the mended file to be in force", || (limit(&mut client, "u4") == Some(5)).then_some(()));

    let imported = finish(&mut tollgate(&["rules", "import", folder, "--envoy-all-or-none", "web"]));
    assert!(imported.exit == 0 && imported.out.contains("charge: all_or_none"), "{}", imported.err);
    assert!(!imported.err.contains("warning:"), "nothing is wrong with what was imported: {}", imported.err);
    let empty_folder = web.parent().unwrap().with_file_name("empty");
    std::fs::create_dir_all(&empty_folder).expect("a folder");
    let empty = finish(&mut tollgate(&["agent", "--envoy-config", empty_folder.to_str().unwrap()]));
    assert_eq!(empty.exit, 2);
    assert!(empty.err.contains("there is no file in it"), "{}", empty.err);
}
