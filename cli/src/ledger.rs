//! Flags of the ledger of regions, and the part of an aggregator in it.

use std::sync::Arc;

use anyhow::bail;
use tollgate_aggregator::regions::{GlobalRules, HomeBuses, RegionBuses, RegionFeed, RegionRole, RegionRoleSettings};
use tollgate_aggregator::{Aggregator, WorkerSettings};
use tollgate_bus::kafka::{KafkaBus, KafkaSettings, TopicSet};
use tollgate_command::exit::Usage;
use tollgate_command::servers::{KafkaArgs, RedisArgs};
use tollgate_core::clock::Clock;
use tollgate_redis::{HashSlots, RedisSettings, RegionLimits};

use crate::serve;

/// Ledger of a command.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LedgerArgs {
    /// Kafka brokers of the home cluster, which holds the ledger of all regions: `home-1:9092`; --kafka-prefix and --kafka-set
    /// hold for it, too
    #[arg(long, value_name = "BROKERS")]
    ledger: Option<String>,
    /// Topic in the region's own cluster to which a mirror copies the ledger, such as `home.ledger`; the mirror copies the topic
    /// `usage` under the same name with `usage` in place of `ledger` [default: none; both are read from the home cluster]
    #[arg(long, value_name = "NAME")]
    ledger_topic: Option<String>,
    /// Lets this aggregator coordinate the budgets of all regions, or with `--coordinator=false` keeps it from that; of those that
    /// may, the first by name does [default: true in the home region, where --ledger and --kafka name the same broker]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    coordinator: Option<bool>,
}

impl LedgerArgs {
    /// Returns the Redis of an aggregator that takes part in the ledger; none if it takes no part.
    ///
    /// # Errors
    /// If a flag needs the ledger and no brokers are named, or the Redis cannot hold the limits of a region.
    pub(crate) fn limits_in(&self, redis: &RedisArgs) -> Result<Option<RedisSettings>, Usage> {
        let flag = if self.coordinator.is_some() { "--coordinator" } else { "--ledger-topic" };
        if self.ledger.is_none() {
            let needs_ledger = self.coordinator.is_some() || self.ledger_topic.is_some();
            let error = || Usage(format!("{flag} needs --ledger BROKERS, the home cluster of the regions"));
            return if needs_ledger { Err(error()) } else { Ok(None) };
        }
        if let Some(name) = self.ledger_topic.as_ref().filter(|name| TopicSet::usage_mirror(name).is_none()) {
            return Err(Usage(format!(
                "--ledger-topic {name} does not contain `ledger`, so it does not tell the name of the mirrored topic `usage`; let the mirror name its topics like `home.ledger` and `home.usage`"
            )));
        }
        match redis.settings() {
            Some(redis) if redis.slots == HashSlots::Multi => Err(Usage(
                "--ledger needs one Redis that holds all counters of the region, because a floor and its counters have different slots: leave out --redis-slots multi"
                    .to_owned(),
            )),
            None => Err(Usage(
                "--ledger needs --redis URL: the Redis of the region's agents, which enforces the region's budgets"
                    .to_owned(),
            )),
            redis => Ok(redis),
        }
    }

    /// Returns true if the aggregator with this Kafka may coordinate.
    pub(crate) fn coordinates(&self, kafka: &KafkaArgs) -> bool {
        let Some(ledger) = &self.ledger else { return false };
        let is_home = || kafka.settings().is_some_and(|own| names_same_broker(ledger, &own.brokers));
        self.coordinator.unwrap_or_else(is_home)
    }

    /// Starts the part of an aggregator, over the region's own Kafka and Redis.
    ///
    /// # Errors
    /// If a server is not named, or cannot be used.
    pub(crate) fn start(
        &self,
        (kafka, redis): (&KafkaArgs, &RedisSettings),
        settings: RegionRoleSettings,
        rules: GlobalRules,
        facts: (RegionFeed, &Aggregator),
        clock: Arc<dyn Clock>,
    ) -> anyhow::Result<RegionRole> {
        let (Some(own), Some(ledger)) = (kafka.settings(), &self.ledger) else {
            bail!(Usage("an aggregator needs --kafka BROKERS and --ledger BROKERS".to_owned()));
        };
        let home = KafkaSettings::new(ledger).prefixed(own.topic_prefix.clone()).accessed(own.access.clone());
        let home = home.with(own.settings.clone());
        let bus = |settings: &KafkaSettings, topics| KafkaBus::new(settings.clone().carrying(topics));
        let mirror = |topics: Option<TopicSet>| topics.map(|topics| bus(&own, topics)).transpose();
        let of_usage = self.ledger_topic.as_deref().and_then(TopicSet::usage_mirror);
        let buses = RegionBuses {
            ledger: HomeBuses {
                home: bus(&home, TopicSet::Ledger)?,
                mirror: mirror(self.ledger_topic.clone().map(TopicSet::LedgerMirror))?,
            },
            usage: HomeBuses { home: bus(&home, TopicSet::Usage)?, mirror: mirror(of_usage)? },
        };
        let limits = RegionLimits::new(redis, clock.clone())?;
        let (feed, aggregator) = facts;
        let facts = (feed, aggregator.queries());
        Ok(RegionRole::start(settings, &buses, Some(limits), rules, facts, clock)?)
    }
}

fn names_same_broker(list: &str, other: &str) -> bool {
    list.split(',').any(|broker| other.split(',').any(|of_other| of_other.trim() == broker.trim()))
}

pub(crate) fn region_settings(settings: &WorkerSettings, clock: &dyn Clock) -> RegionRoleSettings {
    RegionRoleSettings {
        id: settings.id.clone(),
        region: settings.region.clone(),
        coordinates: settings.coordinates,
        // The time of the start, and random bits: no other life of a process has it.
        life: (clock.now().as_ms() << 20) ^ (serve::random_number() >> 44),
        dead_letters: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_region_has_a_broker_of_the_ledger() {
        for (ledger, own, expected) in [
            ("home:9092", "home:9092", true),
            ("home-1:9092,home-2:9092", "home-2:9092, home-3:9092", true),
            ("home:9092", "home:9093", false),
            ("home:9092", "us-home:9092", false),
        ] {
            assert_eq!(names_same_broker(ledger, own), expected, "{ledger} {own}");
        }
    }
}
