//! One agent of a fleet: counters in Redis, which all agents share, and calls published to Kafka.
//!
//! `cargo run -p tollgate --features redis,kafka --example redis_and_kafka -- redis://127.0.0.1 127.0.0.1:9092`

use std::time::Duration;

use tollgate::{Agent, Call, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut servers = std::env::args().skip(1);
    let redis = servers.next().unwrap_or_else(|| "redis://127.0.0.1".to_owned());
    let kafka = servers.next().unwrap_or_else(|| "127.0.0.1:9092".to_owned());

    let agent = Agent::builder()
        .node("gateway-1") // unique in the fleet
        .rule(Rule::per("per-key", &["api_key"], "100/min".parse()?).strict())
        .redis(&*redis)
        .kafka(&*kafka)
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
    match agent.check(&call).await {
        Ok(admission) => println!("admitted by the {}", admission.decision.source),
        Err(denial) => println!("denied for {:?}: {denial}", denial.retry_after()),
    }

    // The last calls reach Kafka before the process ends.
    agent.shutdown().await;
    Ok(())
}
