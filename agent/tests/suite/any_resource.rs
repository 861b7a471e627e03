//! A limit on any resource in five lines, for programs that have a key and a cost and know no descriptors.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use tollgate::{Agent, Call, Rule};

/// H7: the key is a hash of 64 bits, and a call takes units.
#[tokio::test]
async fn five_lines_limit_any_resource_by_its_hash() -> Result<(), Box<dyn std::error::Error>> {
    let key = |resource: &str| BuildHasherDefault::<DefaultHasher>::default().hash_one(resource).to_string();

    let agent = Agent::builder().rule(Rule::per("resource", &["key"], "100/min".parse()?)).start()?;
    let try_acquire = async |resource: &str, cost: u64| {
        let call = Call::new().with("key", key(resource)).costing(cost);
        agent.check(&call).await.is_ok()
    };
    assert!(try_acquire("printer-1", 99).await);
    assert!(!try_acquire("printer-1", 2).await);
    assert!(try_acquire("printer-1", 1).await);
    assert!(try_acquire("printer-2", 100).await, "another resource");
    Ok(())
}
