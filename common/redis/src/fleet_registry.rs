//! The registry of live agents in Redis, by which agents without a bus know the size of their fleet.
//!
//! An agent announces itself regularly; one that is silent for [`GONE_AFTER_MS`] is removed by whoever announces next. The
//! announcement has the agent's rules and its digest key. The answer has a rank for the rules, which orders the rules of all
//! agents without a comparison of their clocks, and tells which rules are published in the same Redis.

use std::sync::Arc;

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::StoreError;
use tollgate_core::messages::presence::{AnnouncedRules, GAP_MS_MAX, GONE_AFTER_MS, PresenceSet, RULES_GONE_AFTER_MS};

use crate::connection::Connection;
use crate::keys::rules_key;
use crate::remedy::OwnKey;
use crate::script::Script;
use crate::settings::{HashSlots, RedisSettings};

/// Maximum number of agents in an answer.
const AGENTS_LEN_MAX: usize = 10_000;

/// The registry of live agents in Redis.
pub struct FleetRegistry {
    connection: Arc<Connection>,
    key: OwnKey,
    /// Key of the published rules, where a script may read keys of two slots.
    published: Option<String>,
    key_fingerprint: u64,
    announce: Script,
}

/// Form of an answer: [`PresenceSet`], field by field.
type Answer = (u64, Vec<(String, u64)>, Option<u64>, u64, u64, Option<u64>, u32);

impl FleetRegistry {
    /// A registry on this connection; the connection's owner pings it.
    #[must_use]
    pub fn on(connection: Arc<Connection>, settings: &RedisSettings) -> Self {
        let announce = Script::at_store_time(include_str!("lua/fleet_registry.lua"));
        let RedisSettings { prefix, slots, key_fingerprint, .. } = settings;
        let key = OwnKey { name: format!("{prefix}agents"), after_deletion: "the agents announce themselves again" };
        let published = (*slots == HashSlots::Together).then(|| rules_key(prefix));
        Self { connection, key, published, key_fingerprint: *key_fingerprint, announce }
    }

    /// Announces that an agent is alive, with its rules. Returns the live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn announce(&self, agent: &str, rules: Option<AnnouncedRules>) -> Result<PresenceSet, StoreError> {
        self.update(agent, "0", rules).await
    }

    /// Removes an agent that stops. Returns the live agents.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses.
    pub async fn leave(&self, agent: &str) -> Result<PresenceSet, StoreError> {
        self.update(agent, "1", None).await
    }

    async fn update(
        &self,
        agent: &str,
        leaving: &str,
        rules: Option<AnnouncedRules>,
    ) -> Result<PresenceSet, StoreError> {
        let numbering = rules.map_or("", |rules| rules.numbering.as_str());
        let (generation, rank) = rules.map_or((0, 0), |rules| (rules.generation, rules.rank));
        let digest_key = format!("{:016x}", self.key_fingerprint);
        let numbers = [GONE_AFTER_MS, AGENTS_LEN_MAX as u64, GAP_MS_MAX, generation, rank, RULES_GONE_AFTER_MS];
        let [gone_after_ms, agents_max, gap_ms_max, generation, rank, rules_gone_after_ms] =
            numbers.map(|number| number.to_string());
        let args = [
            agent,
            leaving,
            &gone_after_ms,
            &agents_max,
            &gap_ms_max,
            &digest_key,
            numbering,
            &generation,
            &rank,
            &rules_gone_after_ms,
        ];
        let read = self.published.as_deref();
        let answer: Answer = self.connection.run_at(&self.key, read, &self.announce, &args).await?;
        let (age_ms, agents, before, rank, newest_rank, published, other_digest_keys) = answer;
        let agents = agents.into_iter().map(|(id, announced)| (id.into(), Timestamp::from_ms(announced))).collect();
        let own_before = before.map(Timestamp::from_ms);
        Ok(PresenceSet { age_ms, agents, own_before, rank, newest_rank, published, other_digest_keys })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::SystemClock;
    use tollgate_core::rules::Numbering;
    use tollgate_servers::Redis;

    use super::*;

    async fn registry_on(redis: &Redis) -> FleetRegistry {
        registry_with(redis, RedisSettings::new(&redis.url())).await
    }

    async fn registry_with(redis: &Redis, settings: RedisSettings) -> FleetRegistry {
        let settings = RedisSettings { url: redis.url(), ..settings }.prefixed("fleet:");
        let connection = Connection::new(&settings, Arc::new(SystemClock::start()), Script::store_time());
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
        let rules = AnnouncedRules { numbering, generation, rank };
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

    /// F4: an announcement tells the generation of the published rules, where a script may read their key.
    #[tokio::test]
    async fn an_answer_tells_the_published_generation() {
        let redis = Redis::start();
        let slots = [(HashSlots::Together, Some(4)), (HashSlots::Multi, None)];
        for (slots, published) in slots {
            let registry = registry_with(&redis, RedisSettings::new("").with_slots(slots)).await;
            assert_eq!(registry.announce("one", None).await.map(|set| set.published), Ok(None));
            assert_eq!(redis.command("HSET fleet:rules generation 4 name a text b"), ":3");
            assert_eq!(registry.announce("one", None).await.map(|set| set.published), Ok(published), "{slots:?}");
            assert_eq!(redis.command("DEL fleet:rules"), ":1");
        }
        for (foreign, answer) in [("HSET fleet:rules generation junk", ":1"), ("SET fleet:rules junk", "+OK")] {
            let registry = registry_on(&redis).await;
            assert_eq!(redis.command(foreign), answer);
            assert_eq!(registry.announce("one", None).await.map(|set| set.published), Ok(None), "{foreign}");
        }
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
}
