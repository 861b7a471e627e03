//! At most two exports of a user at a time: a permit per export, which releases its slot when dropped or by its token.
//!
//! `cargo run -p tollgate --example concurrency`

use tollgate::rules::Algorithm;
use tollgate::{Agent, Call, Denial, ReleaseToken, Rule};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A slot that is never released, because its process ended, is free after ten minutes.
    let rule = Rule::per("exports", &["user"], "2/10min".parse()?).counted_by(Algorithm::Concurrency);
    let agent = Agent::builder().rule(rule).start()?;

    // Two run at the same time.
    let (first, second) = tokio::join!(export(&agent, "u1"), export(&agent, "u1"));
    println!("{} and {} rows", first?, second?);

    // A third one at the same time is denied.
    let call = Call::new().with("user", "u1");
    let (one, two) = (agent.check(&call).await?, agent.check(&call).await?);
    let denial = agent.check(&call).await.expect_err("both slots are taken");
    println!("{denial}");
    drop(one);

    // An export that a worker in another process ends: its token travels with the job.
    let permit = two.permit.expect("a call under `concurrency` has a permit");
    let job = permit.into_token().to_string();
    let token: ReleaseToken = job.parse()?;
    agent.release(token).await?;

    // All slots are free again.
    let (_one, _two) = (agent.check(&call).await?, agent.check(&call).await?);
    agent.shutdown().await;
    Ok(())
}

async fn export(agent: &Agent, user: &str) -> Result<u32, Denial> {
    let call = Call::new().with("user", user);
    let _admission = agent.check(&call).await?; // holds the slot until the end of this function
    tokio::task::yield_now().await; // the work
    Ok(1_000)
}
