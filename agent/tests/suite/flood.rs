//! A flood of addresses through one agent: bounds of memory and effects on other callers.

use tollgate::{Agent, Call};
use tollgate_engine::SKETCH_BYTES_DEFAULT;

/// A tenth of the addresses of row K5, to limit the test's duration; the memory does not depend on the number.
const ADDRESSES: u32 = 1_000_000;
const COUNTERS_MAX: usize = 10_000;

const RULES: &str = "
rules:
  - { name: by-address, match: { endpoint: /login }, per: [ip], quota: 5/h, consistency: strict }
  - { name: by-key, match: { endpoint: /v1 }, per: [api_key], quota: 10/h, consistency: strict }
";

/// K5: addresses from many IPv6 networks do not exhaust memory and affect neither rules by user nor honest addresses.
#[tokio::test]
async fn a_flood_of_addresses_exhausts_no_memory_and_affects_no_user() {
    let rules = tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap();
    let agent = Agent::builder().rules(rules).counters_max(COUNTERS_MAX).start().unwrap();
    let user = |key: &str| {
        let call = Call::new().with("api_key", key.to_owned()).with("endpoint", "/v1");
        let admission = agent.try_check(&call).expect("the memory store needs no wait").expect("an admission");
        admission.decision.status.unwrap().remaining
    };
    let login = |ip: String| {
        let call = Call::new().with("ip", ip).with("endpoint", "/login");
        agent.try_check(&call).expect("the memory store needs no wait").is_ok()
    };
    assert_eq!(user("known"), 9);
    assert_eq!((0..6).filter(|_| login("192.0.2.1".into())).count(), 5);
    assert_eq!(agent.engine().held().sketch_bytes, 0, "no memory is taken below the cap");
    let address = |number: u32| format!("2001:db8:{:x}:{:x}::/64", number >> 16, number & 0xffff);
    for number in 0..ADDRESSES {
        login(address(number));
        if number % 250_000 == 0 {
            let held = agent.engine().held();
            assert!(held.counters <= COUNTERS_MAX + 2 && held.sketch_bytes <= SKETCH_BYTES_DEFAULT, "{held:?}");
        }
    }
    assert!(agent.engine().is_table_full() && agent.engine().held().sketch_bytes > 0);
    assert!(!login("192.0.2.1".into()), "a caller known before stays limited");
    let newcomers = 200;
    let passed =
        (0..newcomers).flat_map(|i| (0..2).map(move |_| i)).filter(|i| login(format!("198.51.100.{i}"))).count();
    assert!(passed * 100 >= 2 * newcomers * 99, "{passed} of {} calls of honest newcomers", 2 * newcomers);
    let greedy = (0..50).filter(|_| login("203.0.113.7".into())).count();
    assert!((1..=5).contains(&greedy), "a newcomer has its quota and no more: {greedy}");
    let engine = agent.engine();
    assert_eq!((engine.held().waiting_batches, engine.dropped_rows()), (0, 0), "without a bus there are no batches");
    assert_eq!(user("known"), 8, "an existing caller keeps its counter");
    for i in 0..20 {
        let key = format!("new-{i}");
        assert_eq!((user(&key), user(&key)), (9, 8), "{key}");
    }
}
