//! Limits inside one process: rules in Rust, counters in memory, no server.
//!
//! `cargo run -p tollgate --example in_memory`

use tollgate::{Agent, Call, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder()
        .rule(Rule::per("per-key", &["api_key"], "3/min".parse()?))
        .rule(Rule::per("everybody", &[], "1000/s".parse()?))
        .start()?;

    let mut admitted = 0;
    for number in 1..=5 {
        let call = Call::new().with("api_key", "k1").with("endpoint", "/search");
        match agent.check(&call).await {
            Ok(admission) => {
                admitted += 1;
                let left = admission.decision.status.map(|status| status.remaining);
                println!("call {number} passes; units left under the tightest rule: {left:?}");
            }
            Err(denial) => println!("call {number} is denied for {:?}: {denial}", denial.retry_after()),
        }
    }
    assert_eq!(admitted, 3);

    agent.shutdown().await;
    Ok(())
}
