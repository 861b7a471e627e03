//! Servers that are suspended (SIGSTOP): connections stay open, and requests are read after SIGCONT.

use std::time::Duration;

use tollgate_core::clock::Stopwatch;

use super::fleet_of_processes::{Fleet, Member, check, while_timing};
use crate::support::wait_for;

/// A deadline that a busy machine keeps, unless the store is suspended.
const RULES: &str = "
rules: [{ name: per-key, per: [api_key], quota: 1000/h, consistency: strict, on_failure: closed, deadline: 1s }]";
const STOPPED: Duration = Duration::from_secs(10);
/// Longest time of a call on a busy machine. A call that waited for a suspended server would take until it continues. The
/// deadlines themselves are measured by `tollgate-lab live failure`.
const CALL_MAX: Duration = Duration::from_secs(3);
const CALLS: usize = 500;

/// no-wait: requests that were sent while Redis was suspended charge nothing after it continues.
#[test]
fn requests_to_a_stopped_redis_are_not_charged_when_it_resumes() {
    let fleet = Fleet::start("stopped", RULES);
    // Without Kafka: nothing passes by signal meanwhile, so nothing is owed either.
    let args =
        ["agent", "--redis", &fleet.redis.url(), "--rules", fleet.rules.to_str().unwrap(), "--http", "127.0.0.1:0"];
    let agents: Vec<Member> = (0..2).map(|_| Member::start(args.map(str::to_owned).to_vec())).collect();
    agents.iter().for_each(Member::wait_until_ready);
    let mut clients: Vec<_> = agents.iter().map(Member::client).collect();
    let before = wait_for("an answer of the store", || {
        let said = check(&mut clients[0], "k1");
        (said.source == "store").then_some(said.remaining)
    });

    fleet.redis.pause();
    let since = Stopwatch::start();
    let mut asked = 0;
    while since.elapsed() < STOPPED {
        for client in &mut clients {
            let said = check(client, "k1");
            assert_eq!((said.allowed, said.source.as_str()), (false, "fallback"));
            asked += 1;
        }
    }
    fleet.redis.resume();
    let after = wait_for("an answer of the store", || {
        let said = check(&mut clients[1], "k1");
        (said.source == "store").then_some(said.remaining)
    });
    assert_eq!(after, before - 1, "of {asked} calls that were denied meanwhile, none was charged");
}

/// B10, no-wait: while Kafka is suspended the store still decides all calls, and no call waits for Kafka. The durations
/// before and during the suspension are printed.
#[test]
fn a_stopped_kafka_is_not_noticed_by_calls() {
    let fleet = Fleet::start("silent", RULES);
    let agent = fleet.agent("gw-1");
    let mut client = agent.client();
    assert_eq!(check(&mut client, "k1").source, "store");
    let mut decided_in_time = |when: &str| {
        let mut times = Vec::new();
        let ((), lateness) = while_timing(|| {
            for call in 0..CALLS {
                let took = Stopwatch::start();
                let said = check(&mut client, &format!("key-{when}-{call}"));
                times.push(took.elapsed());
                assert_eq!(said.source, "store", "{when}, call {call}");
            }
        });
        times.sort_unstable();
        let (median, worst) = (times[CALLS / 2], times[CALLS - 1]);
        println!("{when}: median {median:?}, worst {worst:?}; a bare timer was {lateness:?} late");
        assert!(worst <= CALL_MAX, "{when}: {worst:?}");
    };
    decided_in_time("before");
    fleet.kafka.pause();
    decided_in_time("stopped");
    fleet.kafka.resume();
}
