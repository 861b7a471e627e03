//! Servers whose agents share counters in a real Redis.

use axum::Router;
use axum::routing::get;
use tollgate::Agent;
use tollgate_servers::Redis;
use tollgate_tower::RateLimitLayer;

use crate::support::{Client, serve};

/// D1: the layer waits for Redis, and two servers have one quota.
#[tokio::test]
async fn servers_on_one_redis_share_a_quota() {
    let redis = Redis::start();
    let mut clients = Vec::new();
    for node in ["gw-1", "gw-2"] {
        let rules = "rules: [{ name: shared, per: [ip], quota: 3/min, consistency: strict, deadline: 5s }]";
        let rules = tollgate_rules::from_yaml("rules.yaml", rules, 1).unwrap();
        let agent = Agent::builder().node(node).rules(rules).redis(&*redis.url()).start().unwrap();
        while !agent.missing_parts().await.is_empty() {
            tokio::task::yield_now().await;
        }
        let router = Router::new().route("/", get(|| async { "found" })).layer(RateLimitLayer::new(agent));
        clients.push(Client::connect(serve(router).await).await);
    }
    let mut statuses = Vec::new();
    for turn in 0..6 {
        let answer = clients[turn % 2].get("/", &[]).await;
        statuses.push(answer.status.as_u16());
        assert_eq!(answer.header("x-gateway-node"), ["gw-1", "gw-2"][turn % 2]);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    assert_ne!(redis.command("DBSIZE"), ":0", "the counters are in Redis");
}
