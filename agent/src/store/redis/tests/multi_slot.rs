//! Calls whose counters lie in several slots: all are charged or none, though each slot is a step of its own.

use std::sync::atomic::AtomicU64;
use std::task::{Context, Waker};

use super::super::codec::StepScope;
use super::super::multi_slot::new_token;
use super::*;
use conformance::HandClock;

const NOW: u64 = 1_000_000_000_000;

fn agent(redis: &Redis, prefix: &str) -> RedisStore {
    let settings = RedisSettings::new(&redis.url()).prefixed(prefix).with_slots(HashSlots::Multi);
    let store = RedisStore::new(&settings, Arc::new(SystemClock::start())).expect("an address");
    wait_for_answer(&store);
    store
}

fn until(take: &Charge, expires_at: u64) -> Charge {
    Charge { mode: ChargeMode::Enforce { expires_at: Timestamp::from_ms(expires_at) }, ..take.clone() }
}

/// The step of one slot of a call.
fn part(store: &RedisStore, take: &Charge, scope: StepScope) -> ChargeResults {
    let steps = &store.gathered.steps;
    let socket = steps.connection.socket().expect("it is connected");
    on(steps.run_on(&socket, std::slice::from_ref(take), scope)).expect("Redis answers")
}

/// Algorithms that hold exactly the admitted units, over a window that no test outlives.
fn rule(counter: u128, units: u64) -> Charge {
    let algorithms = [
        Algorithm::SlidingWindow(Estimate::Conservative),
        Algorithm::SlidingLog,
        Algorithm::FixedWindow,
        Algorithm::Concurrency,
        Algorithm::SlidingWindow(Estimate::Interpolated),
    ];
    let algorithm = algorithms[usize::try_from(counter % 5).expect("small")];
    let parts = if algorithm == Algorithm::FixedWindow { 1 } else { 12 };
    // Twenty days: the next edge of a fixed window is not near.
    let window = Window::new(20 * 24 * 3_600_000, parts).expect("a window");
    Charge { limit: Limit { algorithm, units, window, burst: 0 }, ..ask(counter, units) }
}

/// Many agents send calls over two or three counters, some of which are soon exhausted. In the end, the counters hold
/// exactly the units of the admitted calls.
#[test]
fn refused_calls_of_a_racing_fleet_leave_nothing_charged() {
    const COUNTERS: usize = 6;
    const QUOTAS: [u64; COUNTERS] = [2_000, 150, 900, 40, 300, 1_200];
    let redis = Redis::start();
    let agents: Vec<_> = (0..20).map(|_| Arc::new(agent(&redis, "race:"))).collect();
    let admitted: Arc<[AtomicU64; COUNTERS]> = Arc::default();
    let refused = Arc::new(AtomicU64::new(0));
    let now = wait_for_answer(&agents[0]);
    // Held for longer than a slow machine may take for the refunds.
    let expires_at = now.plus_ms(30_000).as_ms();
    let tasks: Vec<_> = (0..20_usize)
        .map(|number| {
            let (agent, admitted, refused) = (agents[number].clone(), admitted.clone(), refused.clone());
            RUNTIME.spawn(async move {
                for call in 0..300 {
                    let mut counters =
                        vec![(call + number) % COUNTERS, (call * 5 + number + 1) % COUNTERS, call % COUNTERS];
                    counters.truncate(2 + call % 2);
                    counters.sort_unstable();
                    counters.dedup();
                    let cost = 1 + call as u64 % 3;
                    let takes: Vec<_> = counters
                        .iter()
                        .map(|counter| until(&Charge { cost, ..rule(*counter as u128, QUOTAS[*counter]) }, expires_at))
                        .collect();
                    let answers = agent.charge(&takes).await.expect("Redis answers");
                    let charged = answers.iter().filter(|taken| taken.charged).count();
                    assert!(charged == 0 || charged == takes.len(), "all or none");
                    if charged == 0 {
                        refused.fetch_add(1, Ordering::Relaxed);
                    } else {
                        for counter in counters {
                            admitted[counter].fetch_add(cost, Ordering::Relaxed);
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        on(task).expect("a task ends");
    }
    assert!(refused.load(Ordering::Relaxed) > 1_000, "{refused:?}");
    // A connection that answers has executed its earlier commands.
    for agent in &agents {
        assert!(wait_for_answer(agent) >= now);
    }
    for (counter, quota) in QUOTAS.iter().enumerate() {
        let held = quota - left(&agents[0], &rule(counter as u128, *quota));
        assert_eq!(held, admitted[counter].load(Ordering::Relaxed), "counter {counter} of {QUOTAS:?}");
    }
}

/// Refused calls are refunded also when callers do not wait for the answers.
#[test]
fn calls_whose_callers_have_left_are_refunded_too() {
    let redis = Redis::start();
    let agent = agent(&redis, "left:");
    let (open, full) = (ask(1, 1_000), ask(2, 1));
    assert!(take(&agent, &full).expect("Redis answers")[0].charged);
    let steps = || {
        let stats = redis.command("INFO commandstats");
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next());
        calls.and_then(|calls| calls.parse::<u32>().ok()).expect("a number")
    };
    let before = steps();
    for _ in 0..100 {
        let takes = [open.clone(), full.clone()];
        let mut call = Box::pin(agent.charge(&takes));
        // Begun and left; now and then the answer is there at once.
        let _ = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    // Two slots were asked, and one gave back; a ping may have been counted among them.
    wait_for("all refunds", || (steps() >= before + 300).then_some(()));
    wait_for("nothing to be left behind", || (left(&agent, &open) == 1_000).then_some(()));
}

/// The charges of the other slots are refunded if one slot fails, and the result is the error.
#[test]
fn the_other_slots_are_refunded_when_one_fails() {
    let redis = Redis::start();
    let agent = agent(&redis, "fail:");
    assert_eq!(redis.command(&format!("SET {} hello", key(&agent, 2))), "+OK");
    assert_eq!(on(agent.charge(&[ask(1, 10), ask(2, 10)])), Err(StoreError::Unreadable));
    assert_eq!(left(&agent, &ask(1, 10)), 10);
    // Units that a slot charged in any case stay charged; the counter that failed is not charged again and again.
    let owed = Charge { mode: ChargeMode::Backfill { at: wait_for_answer(&agent) }, ..ask(1, 10) };
    assert_eq!(on(agent.charge(&[owed, ask(2, 10)])), Err(StoreError::Unreadable));
    assert_eq!(left(&agent, &ask(1, 10)), 9);
}

/// Tentative units are confirmed after twice the time that their call had left; a later refund is void.
#[test]
fn a_refund_after_the_hold_is_void() {
    for (waits_ms, remaining) in [(0, 10), (999, 10), (1_000, 8), (5_000, 8)] {
        let clock = Arc::new(HandClock::at(NOW));
        let store = by_hand(HashSlots::Multi, clock.clone());
        let (token, expires_at) = (new_token(), Timestamp::from_ms(NOW + 500));
        let two = Charge { cost: 2, ..until(&ask(1, 10), NOW + 500) };
        assert!(part(&store, &two, StepScope::OneSlot { token, expires_at })[0].charged);
        clock.set(NOW + waits_ms);
        part(&store, &two, StepScope::RefundSlot { token });
        part(&store, &two, StepScope::RefundSlot { token });
        part(&store, &two, StepScope::RefundSlot { token: new_token() });
        assert_eq!(left(&store, &ask(1, 10)), remaining, "after {waits_ms} ms");
    }
}

/// The refund of a charge that was never made creates no counter.
#[test]
fn a_refund_creates_no_key() {
    let store = by_hand(HashSlots::Multi, Arc::new(HandClock::at(NOW)));
    part(&store, &ask(1, 10), StepScope::RefundSlot { token: new_token() });
    take(&store, &Charge { mode: ChargeMode::Refund { at: Timestamp::from_ms(NOW), whole: None }, ..ask(1, 10) })
        .expect("Redis answers");
    assert_eq!(SHARED.command(&format!("EXISTS {} {}", key(&store, 1), steps::tentative(&key(&store, 1)))), ":0");
}

/// Units that were held when the store's clock stepped back are confirmed: their hold would last as long as the step.
#[test]
fn units_are_not_held_longer_after_the_clock_stepped_back() {
    let clock = Arc::new(HandClock::at(NOW));
    let store = by_hand(HashSlots::Multi, clock.clone());
    let one = ask(1, 10);
    let charge = |token, now| {
        let expires_at = Timestamp::from_ms(now + 50);
        part(&store, &Charge { cost: 4, ..until(&one, now + 50) }, StepScope::OneSlot { token, expires_at });
    };
    let [before, after] = [new_token(), new_token()];
    charge(before, NOW);
    clock.set(NOW - 100_000);
    part(&store, &one, StepScope::RefundSlot { token: before });
    assert_eq!(left(&store, &one), 6, "they are confirmed");
    charge(after, NOW - 100_000);
    assert_eq!(SHARED.command(&format!("STRLEN {}", steps::tentative(&key(&store, 1)))), ":27", "and dropped");
    part(&store, &one, StepScope::RefundSlot { token: after });
    assert_eq!(left(&store, &one), 6, "newer ones are refunded");
}

/// A request that was denied in another slot may be retried, and is charged then.
#[test]
fn a_refunded_request_id_is_forgotten() {
    let redis = Redis::start();
    let agent = agent(&redis, "name:");
    let name = Some(conformance::REQUESTS[0]);
    let (open, full) = (Charge { request: name, ..ask(1, 10) }, Charge { request: name, ..ask(2, 1) });
    assert!(take(&agent, &ask(2, 1)).expect("Redis answers")[0].charged);
    let refused = on(agent.charge(&[open.clone(), full.clone()])).expect("Redis answers");
    assert!(refused.iter().all(|taken| !taken.charged && !taken.repeated));
    let raised = Charge { limit: ask(2, 5).limit, generation: 2, ..full };
    let charged = on(agent.charge(&[open.clone(), raised.clone()])).expect("Redis answers");
    assert!(charged.iter().all(|taken| taken.charged && !taken.repeated));
    let again = on(agent.charge(&[open, raised])).expect("Redis answers");
    assert!(again.iter().all(|taken| taken.charged && taken.repeated));
    assert_eq!(left(&agent, &ask(1, 10)), 9);
}
