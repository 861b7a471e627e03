//! One agent of a fleet: counters in Redis, which all agents share, and calls published to Kafka.
//!
//! `cargo run -p tollgate --features redis,kafka --example redis_and_kafka -- redis://127.0.0.1 127.0.0.1:9092`

use std::time::Duration;

use tollgate::{Agent, Call, Rule, Source};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut servers = std::env::args().skip(1);
    let redis = servers.next().unwrap_or_else(|| "redis://127.0.0.1".to_owned());
    let kafka = servers.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    println!("admitted by the {}", check_once(&redis, &kafka).await?);
    Ok(())
}

/// Checks one call, and returns the part that admitted it.
pub(crate) async fn check_once(redis: &str, kafka: &str) -> Result<Source, Box<dyn std::error::Error>> {
    let agent = Agent::builder()
        .node("gateway-1") // unique in the fleet
        .rule(Rule::per("per-key", &["api_key"], "100/min".parse()?).strict())
        .redis(redis)
        .kafka(kafka)
        .start()?;

    // The agent limits calls from its start, also while a server is down. A gateway that prefers to wait asks for what is
    // missing.
    while let missing = agent.missing_parts().await
        && !missing.is_empty()
    {
        println!("waiting: {}", missing.join("; "));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }

    let call = Call::new().with("api_key", "k1").costing(5);
    let admission = agent.check(&call).await?; // the error is the denial

    // The last calls reach Kafka before the process ends.
    agent.shutdown().await;
    Ok(admission.decision.source)
}
