//! Calls that wait for others: one charge for those on one counter, and an end for each.

use futures_util::future::join_all;

use super::*;

/// Makes so many calls at once on each of these counters. Returns the numbers of admissions.
fn calls(store: &Arc<RedisStore>, counters: &[Charge], len: usize) -> Vec<usize> {
    on(async {
        let call = |charge: Charge| {
            let store = store.clone();
            tokio::spawn(async move { store.charge(&[charge]).await })
        };
        let made = (0..len).flat_map(|_| counters.iter().cloned().map(call));
        let mut admitted = vec![0; counters.len()];
        for (place, answer) in join_all(made).await.into_iter().enumerate() {
            let result = answer.expect("the call ends").expect("Redis answers")[0];
            assert_eq!(result.charged, result.verdict.admitted);
            admitted[place % counters.len()] += usize::from(result.charged);
        }
        admitted
    })
}

/// C12: calls that wait for the same counter share a charge, and exactly those that have room are admitted.
#[test]
fn calls_on_one_counter_share_a_charge() {
    let redis = Redis::start();
    let store = Arc::new(store(&redis.url(), "shared:"));
    wait_for_answer(&store);
    let before = redis.scripts_run();
    let counters = [rule(1, 700, 1), rule(2, 90, 4), rule(3, 5_000, 1)];
    assert_eq!(calls(&store, &counters, 1_000), [700, 22, 1_000]);
    let scripts = redis.scripts_run() - before;
    assert!(scripts < 1_500, "{scripts} scripts for 3,000 calls");
    assert_eq!(calls(&store, &counters, 10), [0, 0, 10], "the store has charged what it told");
}

/// no-wait: a caller that leaves while its step is in flight or waits keeps nobody from an answer.
#[test]
fn callers_that_leave_keep_nobody_waiting() {
    let redis = Redis::start();
    let store = Arc::new(store(&redis.url(), "leave:"));
    wait_for_answer(&store);
    redis.pause();
    on(async {
        for counter in [1, 1, 2, 2] {
            let call = [ask(counter, 9)];
            assert!(tokio::time::timeout(PATIENCE, store.charge(&call)).await.is_err(), "Redis is stopped");
        }
    });
    redis.resume();
    assert_eq!(calls(&store, &[rule(3, 100, 1)], 50), [50]);
}

/// A charge on a counter of so many units, of this cost.
fn rule(counter: u128, units: u64, cost: u64) -> Charge {
    Charge { cost, ..ask(counter, units) }
}
