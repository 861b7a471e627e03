//! Cost of a decision for the gateway, compared with one addition behind a map.

use std::collections::HashMap;
use std::sync::Mutex;

use divan::{Bencher, black_box};
use tollgate::{Agent, Call, Rule};
use tollgate_core::rules::Pattern;

fn main() {
    divan::main();
}

fn agent(quota: &str) -> Agent {
    let rule = Rule::per("per-key", &["api_key"], quota.parse().expect("a quota")).strict();
    Agent::builder().rule(rule).start().expect("an agent")
}

fn bench(bencher: Bencher, quota: &str, callers: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let agent = agent(quota);
    let keys: Vec<String> = (0..callers).map(|caller| format!("caller-{caller}")).collect();
    let mut next = keys.iter().cycle();
    bencher.bench_local(|| {
        let key = next.next().expect("a cycle has no end");
        agent.try_check(black_box(&Call::new().with("api_key", key.as_str())))
    });
}

#[divan::bench(args = [1, 10_000])]
fn reference_map_and_add(bencher: Bencher, callers: usize) {
    let keys: Vec<String> = (0..callers).map(|caller| format!("caller-{caller}")).collect();
    let counts: Mutex<HashMap<String, u64>> = Mutex::new(keys.iter().map(|key| (key.clone(), 0)).collect());
    let mut next = keys.iter().cycle();
    bencher.bench_local(|| {
        let key = next.next().expect("a cycle has no end");
        let mut counts = counts.lock().expect("one thread");
        let count = counts.get_mut(black_box(key)).expect("known");
        *count += 1;
        *count
    });
}

#[divan::bench(args = [1, 10_000])]
fn admitted_by_the_own_table(bencher: Bencher, callers: usize) {
    bench(bencher, "1000000000/min", callers);
}

#[divan::bench(args = [1, 10_000])]
fn denied_from_the_cache(bencher: Bencher, callers: usize) {
    bench(bencher, "1/24d", callers);
}

#[divan::bench(args = [1, 16, 5_000])]
fn under_rules_for_one_tenant_each(bencher: Bencher, rules: usize) {
    let rule = |tenant: usize| {
        let quota = "1000000000/min".parse().expect("a quota");
        let mut rule = Rule::per(&format!("tenant-{tenant}"), &["api_key"], quota).strict();
        rule.matches = vec![("tenant".into(), Pattern::Exact(format!("t{tenant}").into()))];
        rule
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    let agent = (0..rules).fold(Agent::builder(), |builder, tenant| builder.rule(rule(tenant)));
    let agent = agent.start().expect("an agent");
    let tenants: Vec<String> = (0..rules).map(|tenant| format!("t{tenant}")).collect();
    let mut next = tenants.iter().cycle();
    bencher.bench_local(|| {
        let tenant = next.next().expect("a cycle has no end");
        agent.try_check(black_box(&Call::new().with("tenant", tenant.as_str()).with("api_key", "a")))
    });
}
