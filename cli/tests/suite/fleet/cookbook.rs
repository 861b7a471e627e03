//! The cookbook in a fleet: each recipe limits HTTP requests to three agents that share a Redis, as it is printed there. Only the
//! deadline is longer, for busy machines.

use serde_json::{Value, json};
use tollgate_servers::{Redis, free_port};

use super::fleet_of_processes::Member;
use crate::commands::cookbook::recipes;
use crate::support::{Client, file};

const AGENTS: usize = 3;

/// Headers of a request.
type Headers = &'static [(&'static str, &'static str)];

/// Requests of one kind, which go to the agents in turn.
struct Requests {
    recipe: &'static str,
    method: &'static str,
    /// Path behind the address of the agent.
    path: &'static str,
    headers: Headers,
    calls: usize,
    /// Least and most admissions.
    admitted: [usize; 2],
}

const fn requests(
    recipe: &'static str,
    [method, path]: [&'static str; 2],
    headers: Headers,
    calls: usize,
    admitted: [usize; 2],
) -> Requests {
    Requests { recipe, method, path, headers, calls, admitted }
}

const GET: &str = "GET";
const TENANT: Headers = &[("x-tenant", "t1")];
const USER_1_OF_TENANT: Headers = &[("x-user", "u1"), ("x-tenant", "t1")];
const USER_2_OF_TENANT: Headers = &[("x-user", "u2"), ("x-tenant", "t1")];

/// Bursts of more calls than the quota. Leases may leave 3% of a quota unspent, and at least one unit. A burst may last for a second,
/// in which a bucket gets new units.
const BURSTS: [Requests; 14] = [
    requests("A quota by plan", [GET, "/check"], &[("x-api-key", "sk_free_1")], 200, [97, 100]),
    requests("A quota by plan", [GET, "/check"], &[("x-api-key", "sk_pro_1")], 1_500, [970, 1_000]),
    requests("Five logins in 15 minutes", ["POST", "/check/login"], &[], 20, [5, 5]),
    requests("A quota per endpoint", [GET, "/check/search/all"], USER_1_OF_TENANT, 60, [29, 30]),
    requests("A quota per endpoint", [GET, "/check/users"], USER_2_OF_TENANT, 400, [194, 200]),
    requests("A quota per endpoint", [GET, "/check/other"], TENANT, 1_500, [740, 771]),
    requests("Bytes instead of calls", [GET, "/check"], TENANT, 20, [20, 20]),
    requests("Tokens of a language model", [GET, "/check"], &[("x-user", "u1")], 120, [58, 60]),
    requests("A burst after idle time", [GET, "/check"], &[("x-api-key", "k")], 1_500, [1_200, 1_300]),
    requests("A queue before a slow backend", [GET, "/check/legacy/x"], &[], 60, [5, 40]),
    requests("Two exports at a time", [GET, "/check/export"], &[("x-user", "u1")], 10, [2, 2]),
    requests("A cost per endpoint", [GET, "/check/search/all"], &[("x-api-key", "k")], 60, [19, 20]),
    requests(
        "Allow list, deny list and a rule in shadow",
        [GET, "/check"],
        &[("x-api-key", "sk_monitoring_1")],
        30,
        [30, 30],
    ),
    requests("Allow list, deny list and a rule in shadow", [GET, "/check"], &[("x-api-key", "k")], 30, [3, 3]),
];

/// B5, F15, K6: each recipe has its effect on HTTP requests to three agents over Redis. Before, half of the leases of several rules
/// could not be spent.
#[test]
fn each_recipe_limits_http_requests_in_a_fleet() {
    for (number, (title, yaml)) in recipes().into_iter().enumerate() {
        let rules = file(&format!("fleet-cookbook-{number}.yaml"), &format!("defaults: {{ deadline: 5s }}\n{yaml}"));
        let redis = Redis::start();
        let agents: Vec<Member> = (0..AGENTS).map(|index| agent(&redis, &rules.display().to_string(), index)).collect();
        let mut clients: Vec<Client> = agents.iter().map(Member::client).collect();
        let bursts: Vec<&Requests> = BURSTS.iter().filter(|requests| requests.recipe == title).collect();
        assert!(!bursts.is_empty(), "`{title}` has requests");
        let mut total = 0;
        for Requests { method, path, headers, calls, admitted: [least, most], .. } in bursts {
            let mut admitted = 0;
            for call in 0..*calls {
                let client = &mut clients[call % AGENTS];
                client.send(method, path, headers, "");
                admitted += usize::from(client.receive().status == 200);
            }
            println!("{title}, {path}: {admitted} of {calls} admitted");
            total += admitted;
            assert!((least..=most).contains(&&admitted), "{title}, {path}: {admitted}, not {least} to {most}");
        }
        // The quota of the tenant, of which leases may leave 3% unspent.
        assert!(title != "A quota per endpoint" || (970..=1_000).contains(&total), "{title}: {total} in all");
        if title == "Bytes instead of calls" {
            let sizes = [50_000_000, 20_000_000].map(|cost| ask(&mut clients[0], &json!({ "tenant": "t2" }), cost));
            assert_eq!(sizes, [200, 429]);
        }
    }
}

fn ask(client: &mut Client, descriptors: &Value, cost: u64) -> u16 {
    client.post(&json!({ "descriptors": descriptors, "cost": cost }).to_string()).status
}

fn agent(redis: &Redis, rules: &str, index: usize) -> Member {
    let (http, node) = (format!("127.0.0.1:{}", free_port()), format!("gw-{index}"));
    let expected = AGENTS.to_string();
    let args = ["agent", "--node", &node, "--agents-expected", &expected, "--redis", &redis.url(), "--http", &http];
    let member = Member::start(args.iter().chain(&["--rules", rules]).map(ToString::to_string).collect());
    member.wait_until_ready();
    member
}
