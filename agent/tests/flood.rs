//! A flood of addresses through one agent: bounds of memory and effects on other callers.

use tollgate::{Agent, Call};

/// Addresses of row K5 in the full test.
const ADDRESSES: u64 = 10_000_000;
const COUNTERS_MAX: usize = 10_000;

const RULES: &str = "
rules:
  - { name: by-address, match: { endpoint: /login }, per: [ip], quota: 5/min, consistency: strict }
  - { name: by-key, match: { endpoint: /v1 }, per: [api_key], quota: 10/min, consistency: strict }
";

/// K5: addresses from many IPv6 networks do not exhaust memory and do not affect rules by user.
#[tokio::test]
async fn a_flood_of_addresses_exhausts_no_memory_and_affects_no_user() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let agent = Agent::builder().rules(rules).counters_max(COUNTERS_MAX).start().unwrap();
    let user = |key: &str| {
        let call = Call::new().with("api_key", key.to_owned()).with("endpoint", "/v1");
        let admission = agent.try_check(&call).expect("the memory store needs no wait").expect("an admission");
        admission.decision.status.unwrap().remaining
    };
    assert_eq!(user("known"), 9);
    let mut passed = 0;
    for address in 0..ADDRESSES {
        let ip = format!("2001:db8:{:x}:{:x}::/64", address >> 16, address & 0xffff);
        let call = Call::new().with("ip", ip).with("endpoint", "/login");
        passed += u32::from(agent.try_check(&call).expect("the memory store needs no wait").is_ok());
        if address % 250_000 == 0 {
            let held = agent.engine().held();
            assert!(held.counters <= COUNTERS_MAX + 2, "{held:?}");
        }
    }
    assert!(
        usize::try_from(passed).unwrap() <= COUNTERS_MAX + 5,
        "past the cap all addresses share one quota: {passed}"
    );
    let engine = agent.engine();
    assert_eq!((engine.held().waiting_batches, engine.dropped_rows()), (0, 0), "without a bus there are no batches");
    assert_eq!(user("known"), 8, "an existing caller keeps its counter");
    for i in 0..20 {
        let key = format!("new-{i}");
        assert_eq!((user(&key), user(&key)), (9, 8), "{key}");
    }
}
