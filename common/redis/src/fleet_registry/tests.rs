//! Tests of the registry on real servers.

use tollgate_core::clock::SystemClock;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Numbering;
use tollgate_servers::Redis;

use std::sync::Arc;

use super::*;
use crate::connection::RedisConnection;
use crate::rule_mirror::{MirrorOutcome, RuleMirror};

async fn registry_on(redis: &Redis) -> FleetRegistry {
    registry_with(redis, RedisSettings::new(&redis.url())).await
}

async fn registry_with(redis: &Redis, settings: RedisSettings) -> FleetRegistry {
    let settings = RedisSettings { url: redis.url(), ..settings }.prefixed("fleet:");
    let connection = RedisConnection::new(&settings, Arc::new(SystemClock::start()), Script::store_time());
    let connection = Arc::new(connection.expect("an address"));
    connection.ping().await.expect("Redis answers");
    FleetRegistry::on(connection, &settings)
}

/// I10: steps of the server's clock, together longer than the removal time, remove no agent and make no young set old.
#[tokio::test]
async fn steps_of_the_clock_remove_nobody_and_make_no_set_old() {
    let redis = Redis::start_with_clock();
    let registry = registry_on(&redis).await;
    registry.announce("other", None).await.expect("Redis answers");
    let mut age_ms = 0;
    for offset_ms in (1..=4).map(|step| 6_000 * step).chain([-3_600_000]) {
        redis.set_clock(offset_ms);
        let set = registry.announce("one", None).await.expect("Redis answers");
        assert_eq!(set.agents.len(), 2, "{set:?} after {offset_ms} ms");
        assert!((age_ms..GONE_AFTER_MS).contains(&set.age_ms), "{set:?} after {offset_ms} ms");
        age_ms = set.age_ms;
    }
}

/// H4: a foreign value under the registry's key is an error until it is deleted, as the log says, and nothing longer.
#[tokio::test]
async fn a_foreign_value_is_an_error_until_it_is_deleted() {
    let redis = Redis::start();
    let registry = registry_on(&redis).await;
    assert_eq!(redis.command("SET fleet:agents junk"), "+OK");
    assert_eq!(registry.announce("one", None).await, Err(StoreError::Unreadable));
    assert_eq!(redis.command("DEL fleet:agents"), ":1");
    assert_eq!(registry.announce("one", None).await.map(|set| set.agents.len()), Ok(1));
}

/// E7: an agent is counted from its first announcement until it leaves or falls silent.
#[tokio::test]
async fn live_agents_are_counted() {
    let redis = Redis::start();
    let registry = registry_on(&redis).await;
    let ids = |set: Result<PresenceSet, StoreError>| {
        let agents = set.expect("Redis answers").agents.into_iter();
        agents.map(|(id, _)| id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(registry.announce("one", None).await), ["one"]);
    assert_eq!(ids(registry.announce("other", None).await), ["one", "other"]);
    assert_eq!(ids(registry.announce("one", None).await).len(), 2);
    let own_before = registry.announce("one", None).await.map(|set| set.own_before);
    assert!(own_before.expect("Redis answers").is_some());
    assert_eq!(registry.announce("new", None).await.map(|set| set.own_before), Ok(None));
    registry.leave("new").await.expect("Redis answers");
    assert_eq!(ids(registry.leave("other").await), ["one"]);
    assert_eq!(redis.command("ZADD fleet:agents 1000 silent"), ":1");
    let before = registry.announce("one", None).await.expect("Redis answers");
    let after = registry.announce("one", None).await.expect("Redis answers");
    assert_eq!(before.agents.len(), 1);
    assert!(after.agents[0].1 >= before.agents[0].1, "each announcement has its time");
    assert!(after.age_ms >= before.age_ms && after.age_ms < GONE_AFTER_MS, "the set is as old as the test");
    assert_ne!(redis.command("PTTL fleet:agents"), ":-1");
}

async fn announced(registry: &FleetRegistry, numbering: Numbering, generation: u64, rank: u64) -> PresenceSet {
    let rules = AnnouncedRules { numbering, generation, order: generation, rank };
    registry.announce("agent", Some(rules)).await.expect("Redis answers")
}

/// F9: rules of another origin are the newest, whatever their number; within one origin, the greater number is the newest.
#[tokio::test]
async fn rules_are_ordered_by_their_first_announcement_and_versions_by_their_numbers() {
    use Numbering::{LoadTime, Publication, Version};
    let redis = Redis::start();
    let registry = registry_on(&redis).await;
    let (now, year_ahead) = (1_800_000_000_000, 1_831_536_000_000);
    // Name; the rules, and the place of the same rules before, if they were announced; true if they are the newest then.
    let cases = [
        ("a file without a version", LoadTime, now, None, true),
        ("a publication, whose offset is smaller", Publication, 1, None, true),
        ("the file is older then", LoadTime, now, Some(0), false),
        ("a version", Version, 7, None, true),
        ("a smaller version is older", Version, 6, None, false),
        ("a greater version", Version, 8, None, true),
        ("the version before", Version, 7, None, false),
        ("the same version at another agent", Version, 8, None, true),
        ("a time is far behind a version", Version, 1, None, false),
        ("a clock that is a year ahead", LoadTime, year_ahead, None, true),
        ("a file that is read later", LoadTime, now + 60_000, None, true),
        ("the clock that is ahead goes on", LoadTime, year_ahead, Some(9), false),
    ];
    let mut ranks: Vec<u64> = Vec::new();
    for (name, numbering, generation, known, is_newest) in cases {
        let rank = known.map_or(0, |place: usize| ranks[place]);
        let newest_before = ranks.iter().copied().max().unwrap_or_default();
        let set = announced(&registry, numbering, generation, rank).await;
        assert_eq!(set.rank == set.newest_rank, is_newest, "{name}: {set:?}");
        assert!(set.newest_rank >= newest_before && (rank == 0 || set.rank == rank), "{name}: {set:?}");
        ranks.push(set.rank);
    }
    assert!(ranks[6] > ranks[4] && ranks[4] > ranks[8], "older versions keep their order: {ranks:?}");
}

/// F9: rules that no live agent has any more do not keep others from being followed, and no outage makes rules old.
#[tokio::test]
async fn the_newest_rules_are_those_of_a_live_agent() {
    use Numbering::Publication;
    let redis = Redis::start_with_clock();
    let registry = registry_on(&redis).await;
    let greater = announced(&registry, Publication, 9, 0).await;
    let smaller = announced(&registry, Publication, 1, 0).await;
    assert!(smaller.rank < greater.rank, "{smaller:?}");
    redis.set_clock(10_000);
    let after_outage = announced(&registry, Publication, 1, smaller.rank).await;
    assert!(after_outage.rank < after_outage.newest_rank, "{after_outage:?}");
    for offset_ms in [11_000, 12_000] {
        redis.set_clock(offset_ms);
        announced(&registry, Publication, 1, smaller.rank).await;
    }
    let alone = announced(&registry, Publication, 1, smaller.rank).await;
    assert!(alone.rank == alone.newest_rank && alone.rank > greater.rank, "{alone:?}");
    let back = announced(&registry, Publication, 9, greater.rank).await;
    assert!(back.rank == back.newest_rank && back.rank > alone.rank, "{back:?}");
    assert_eq!(redis.command("FLUSHALL"), "+OK");
    let kept = announced(&registry, Publication, 9, back.rank).await;
    assert_eq!((kept.rank, kept.newest_rank), (back.rank, back.rank), "a loss of the set loses no order");
}

/// F9: two roll-outs at once, each at one agent, beside one with older rules. Agents that are late do not fall behind those
/// that took their rules for gone; those that are really gone give way to the newest that are left.
#[tokio::test]
async fn rules_that_were_only_late_are_the_newest_again() {
    use Numbering::{LoadTime, Publication};
    const AGENTS: [&str; 3] = ["old", "middle", "new"];
    // Agents that are late, and those that announce first then; the numbering of the newest rules.
    let cases: [(&[usize], &[usize], Numbering); 7] = [
        (&[2], &[0, 1], LoadTime),
        (&[2], &[1, 0], LoadTime),
        (&[2], &[0, 1], Publication),
        (&[1, 2], &[0], LoadTime),
        (&[2, 1], &[0], LoadTime),
        (&[2, 1], &[0], Publication),
        (&[], &[0, 1, 2], LoadTime),
    ];
    for (late, first, numbering) in cases {
        let redis = Redis::start_with_clock();
        let registry = registry_on(&redis).await;
        let (mut ranks, mut newest, mut offset_ms) = ([0; 3], 0, 0);
        let mut announce = async |agent: usize| {
            let numbering = if agent == 2 { numbering } else { LoadTime };
            let rules = AnnouncedRules { numbering, generation: 5, order: 5, rank: ranks[agent] };
            let set = registry.announce(AGENTS[agent], Some(rules)).await.expect("Redis answers");
            assert!(set.newest_rank >= newest, "{set:?}");
            (ranks[agent], newest) = (set.rank, set.newest_rank);
            (ranks, newest)
        };
        for agent in 0..3 {
            announce(agent).await;
        }
        for round in 0..8 {
            let silent = match round {
                2 | 3 => late,
                6 | 7 => &[2],
                _ => &[],
            };
            let others = (0..3).filter(|agent| !first.contains(agent) && !late.contains(agent));
            let order = first.iter().copied().chain(others).chain(late.iter().copied());
            let mut seen = ([0; 3], 0);
            for agent in order.filter(|agent| !silent.contains(agent)) {
                seen = announce(agent).await;
            }
            let (ranks, newest) = seen;
            let context = format!("{late:?} late, {first:?} first, {numbering:?}, round {round}: {ranks:?} {newest}");
            match round {
                // Of those that are left, within two announcements.
                3 | 7 => {
                    let left = (0..3).rev().find(|agent| !silent.contains(agent)).expect("an agent");
                    assert!(ranks[left] == newest, "{context}");
                }
                4 | 5 => assert!(ranks[2] == newest, "{context}"),
                _ => {}
            }
            offset_ms += 1_000;
            redis.set_clock(offset_ms);
        }
    }
}

/// F4: an announcement tells the generation of the published rules, whatever the layout.
#[tokio::test]
async fn an_answer_tells_the_published_generation() {
    let redis = Redis::start();
    let settings = RedisSettings::new(&redis.url()).prefixed("fleet:");
    let mirror = RuleMirror::new(&settings, Arc::new(SystemClock::start())).expect("an address");
    let published = Published::new("a", "b");
    assert_eq!(mirror.publish(&published).await, Ok(MirrorOutcome::Published(1)), "before the first agent");
    assert_ne!(redis.command("PTTL fleet:agents"), ":-1");
    let registry = registry_on(&redis).await;
    let told = async || registry.announce("one", None).await.map(|set| (set.published, set.agents.len()));
    assert_eq!(told().await, Ok((Some(1), 1)));
    assert_eq!(mirror.copy(9, None, &published).await, Ok(9));
    assert_eq!(mirror.copy(7, None, &published).await, Ok(9), "newer ones are stored");
    assert_eq!(told().await, Ok((Some(9), 1)));
    // The rules were deleted, and are numbered anew.
    assert_eq!(redis.command("DEL fleet:rules"), ":1");
    assert_eq!(mirror.publish(&published).await, Ok(MirrorOutcome::Published(1)));
    assert_eq!(told().await, Ok((Some(1), 1)));
    assert_eq!(redis.command("DEL fleet:agents"), ":1");
    assert_eq!(told().await, Ok((None, 1)));
    assert_eq!(redis.command("DEL fleet:agents"), ":1");
    assert_eq!(redis.command("SET fleet:agents junk"), "+OK");
    assert_eq!(mirror.publish(&published).await, Ok(MirrorOutcome::Published(2)), "the rules are stored all the same");
}

/// F7: after a loss of the publications, the next one is above the generation that a live agent enforces, which would ignore it otherwise.
#[tokio::test]
async fn a_publication_after_a_loss_is_above_that_of_the_agents() {
    let redis = Redis::start();
    let settings = RedisSettings::new(&redis.url()).prefixed("fleet:");
    let mirror = RuleMirror::new(&settings, Arc::new(SystemClock::start())).expect("an address");
    let registry = registry_on(&redis).await;
    let published = Published::new("a", "b");
    assert_eq!(mirror.publish(&published).await, Ok(MirrorOutcome::Published(1)));
    assert_eq!(redis.command("FLUSHALL"), "+OK");
    let rules = |numbering, generation| Some(AnnouncedRules { numbering, generation, order: generation, rank: 0 });
    registry.announce("file", rules(Numbering::LoadTime, 1_795_801_067_209)).await.expect("Redis answers");
    registry.announce("one", rules(Numbering::Publication, 4)).await.expect("Redis answers");
    assert_eq!(mirror.publish(&published).await, Ok(MirrorOutcome::Published(5)));
    assert_eq!(mirror.publish(&published).await, Ok(MirrorOutcome::Published(6)));
}

/// I8: agents learn that others digest callers by another key, until those are gone.
#[tokio::test]
async fn an_answer_tells_of_other_digest_keys() {
    let redis = Redis::start_with_clock();
    let own = registry_on(&redis).await;
    let other = RedisSettings { key_fingerprint: 7, ..RedisSettings::new("") };
    let other = registry_with(&redis, other).await;
    let keys = |set: Result<PresenceSet, StoreError>| set.expect("Redis answers").other_digest_keys;
    assert_eq!(keys(own.announce("one", None).await), 0);
    assert_eq!(keys(other.announce("other", None).await), 1);
    assert_eq!(keys(own.announce("one", None).await), 1);
    for step in 1..=5 {
        redis.set_clock(3_000 * step);
        let _ = own.announce("one", None).await;
    }
    assert_eq!(keys(own.announce("one", None).await), 0);
}
