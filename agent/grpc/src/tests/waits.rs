//! Waits of calls that several rules deny at once: the longest one is told, whatever the order of the rules and of the descriptors, also
//! by a denial that an agent repeats.

use tollgate_servers::{Redis, wait_for};

use super::*;
use crate::proto::envoy::service::auth::v3::CheckResponse;
use crate::proto::envoy::service::auth::v3::check_response::HttpResponse;

/// Rules with one call per window. The windows are so different that no jitter makes one wait look like another.
const RULES: &str = "
defaults: { deadline: 5s }
rules:
  - { name: two-short, match: { api_key: two }, per: [api_key], quota: 1/min }
  - { name: two-long, match: { api_key: two }, per: [api_key], quota: 1/h }
  - { name: three-long, match: { api_key: three }, per: [api_key], quota: 1/24h, consistency: strict }
  - { name: three-short, match: { api_key: three }, per: [api_key], quota: 1/min, algorithm: token_bucket }
  - { name: three-middle, match: { api_key: three }, per: [api_key], quota: 1/h, algorithm: sliding_log }
  - { name: user-short, match: { domain: web }, per: [user], quota: 1/min }
  - { name: user-long, match: { domain: web }, per: [user], quota: 1/h }
  - { name: plan, match: { domain: web }, per: [plan], quota: 1/24h }
";
const HOUR_S: u64 = 60 * 60;
const DAY_S: u64 = 24 * HOUR_S;

/// Agents that share their counters, each with its services.
struct Agents {
    routers: Vec<Router>,
    _redis: Option<Redis>,
}

impl Agents {
    fn in_memory() -> Self {
        Self { routers: vec![crate::router(builder("gw-1").start().unwrap())], _redis: None }
    }

    fn over_redis() -> Self {
        let redis = Redis::start();
        let start = |node| {
            let agent = builder(node).redis(&*redis.url()).start().unwrap();
            tokio::task::block_in_place(|| {
                let runtime = tokio::runtime::Handle::current();
                wait_for("Redis", || runtime.block_on(agent.missing_parts()).is_empty().then_some(()));
            });
            crate::router(agent)
        };
        Self { routers: ["gw-1", "gw-2"].map(start).into(), _redis: Some(redis) }
    }

    /// Returns the services of each agent twice in a row: the second denial is one that the agent repeats.
    fn twice(&self) -> impl Iterator<Item = &Router> {
        self.routers.iter().flat_map(|router| [router, router])
    }
}

fn builder(node: &str) -> Builder {
    Agent::builder().node(node).rules(tollgate_rules::from_yaml("rules.yaml", RULES, 1).unwrap())
}

/// Returns the headers of a denial; nothing for an admission.
async fn authorize(router: &Router, key: &str) -> Option<Vec<(String, String)>> {
    let request = check_request(&[("x-api-key", key)]).encode_to_vec();
    let response = ask::<CheckResponse>(router, CHECK, request).await.unwrap();
    let HttpResponse::DeniedResponse(denied) = response.http_response.unwrap() else { return None };
    let headers = denied.headers.into_iter().filter_map(|option| option.header);
    Some(headers.map(|header| (header.key, header.value)).collect())
}

/// Returns true if a wait is about a window. It is at most the window and a sub-window, and `Retry-After` has a jitter of a tenth.
fn is_about(wait_s: u64, window_s: u64) -> bool {
    wait_s > window_s / 2 && wait_s <= window_s * 5 / 4
}

/// Checks that `Retry-After`, `RateLimit` and `RateLimit-Policy` are those of a rule with a window of so many seconds.
fn assert_wait(headers: &[(String, String)], rule: &str, window_s: u64) {
    let header = |name: &str| {
        let found = headers.iter().find(|(known, _)| known == name);
        &*found.unwrap_or_else(|| panic!("no {name}: {headers:?}")).1
    };
    assert!(header("ratelimit-policy").starts_with(&format!("\"{rule}\";")), "{headers:?}");
    let free_s = header("ratelimit").strip_prefix(&format!("\"{rule}\";r=0;t=")).and_then(|text| text.parse().ok());
    assert!(free_s.is_some_and(|free_s| is_about(free_s, window_s)), "{rule}: {headers:?}");
    assert!(header("retry-after").parse().is_ok_and(|retry_s| is_about(retry_s, window_s)), "{rule}: {headers:?}");
}

async fn assert_waits_over_external_authorization(agents: &Agents) {
    for (key, rule, window_s) in [("two", "two-long", HOUR_S), ("three", "three-long", DAY_S)] {
        assert_eq!(authorize(&agents.routers[0], key).await, None, "{key}: the first call passes");
        for router in agents.twice() {
            let denied = authorize(router, key).await.unwrap_or_else(|| panic!("{key}: another call is denied"));
            assert_wait(&denied, rule, window_s);
        }
    }
}

/// The second descriptor has the longest wait, so it decides: its headers are told. Each status has the longest wait of its rules.
async fn assert_waits_of_the_rate_limit_service(agents: &Agents) {
    let both = request(vec![descriptor(&[("user", "u1")]), descriptor(&[("plan", "p1")])]);
    assert_eq!(limit(&agents.routers[0], &both).await.unwrap().overall_code(), Code::Ok);
    for router in agents.twice() {
        let denied = limit(router, &both).await.unwrap();
        assert_eq!(denied.overall_code(), Code::OverLimit);
        for (status, (rule, window_s)) in denied.statuses.iter().zip([("user-long", HOUR_S), ("plan", DAY_S)]) {
            let name = &status.current_limit.as_ref().unwrap().name;
            assert_eq!((status.code(), &**name), (Code::OverLimit, rule));
            let reset_s = status.duration_until_reset.unwrap().seconds.try_into().unwrap();
            assert!(is_about(reset_s, window_s), "{rule}: {reset_s}");
        }
        let headers: Vec<_> =
            denied.response_headers_to_add.into_iter().map(|header| (header.key, header.value)).collect();
        assert_wait(&headers, "plan", DAY_S);
        let metadata = denied.dynamic_metadata.unwrap().fields;
        assert_eq!(metadata["rule"].kind, Some(Kind::StringValue("plan".to_owned())));
    }
}

/// H2: in memory.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_in_memory_tells_the_longest_wait() {
    let agents = Agents::in_memory();
    assert_waits_over_external_authorization(&agents).await;
    assert_waits_of_the_rate_limit_service(&agents).await;
}

/// H2: two agents over a real Redis, of which one has not asked before.
#[tokio::test(flavor = "multi_thread")]
async fn a_denial_over_redis_tells_the_longest_wait() {
    let agents = Agents::over_redis();
    assert_waits_over_external_authorization(&agents).await;
    assert_waits_of_the_rate_limit_service(&agents).await;
}
