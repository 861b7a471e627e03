//! Baselines: ways of limiting as their sources describe them, one file each.

mod counts;
mod nginx;
mod kong;
mod sticky;
mod local_share;
mod broadcast;
mod pub_sub;
mod haproxy;
mod gossip;
mod gossip_sum;
mod gossip_max;
mod local_budget;
mod shared_counts;
mod delta_merge;
mod sub_interval_counter;
mod memcached;
mod central;
mod rate_estimation;
mod redis_list;
mod redis_incr;
mod algorithms;

use tollgate_core::algorithm::Algorithm;
use tollgate_core::window::Estimate;

use super::network::{Trial, TrialResult, simulate};
use central::CentralStore;

#[derive(Clone, Copy)]
pub(super) struct Baseline {
    pub(super) name: &'static str,
    /// Growth of the messages of a call with the number of nodes.
    pub(super) coordination: &'static str,
    /// True if its counter refills, so that only a long window shows a lag.
    pub(super) is_bucket: bool,
    /// True if the only abuser stays at one node.
    pub(super) is_at_one_node: bool,
    pub(super) run: fn(&Trial) -> TrialResult,
}

impl Baseline {
    const fn new(name: &'static str, coordination: &'static str, run: fn(&Trial) -> TrialResult) -> Self {
        Self { name, coordination, is_bucket: false, is_at_one_node: false, run }
    }

    const fn at_one_node(self) -> Self {
        Self { is_at_one_node: true, ..self }
    }

    const fn of_bucket(self) -> Self {
        Self { is_bucket: true, ..self }
    }
}

/// All baselines, in the order of the table.
pub(super) const BASELINES: [Baseline; 23] = [
    Baseline::new("nginx, per node", "0", |trial| simulate(nginx::Nginx::new(trial), trial)).of_bucket(),
    Baseline::new("Kong, per node", "0", |trial| simulate(kong::Kong::new(trial), trial)),
    Baseline::new("sticky sessions", "0", |trial| simulate(sticky::Sticky::new(trial), trial)),
    Baseline::new("local share", "0", |trial| simulate(local_share::LocalShare::new(trial), trial)),
    Baseline::new("broadcast", "N", |trial| simulate(broadcast::Broadcast::new(trial), trial)),
    Baseline::new("pub/sub broadcast", "N", |trial| simulate(pub_sub::PubSub::new(trial), trial)),
    Baseline::new("HAProxy stick tables", "N", |trial| simulate(haproxy::HaproxyPeers::new(trial), trial)),
    Baseline::new("gossip, summed", "1", |trial| simulate(gossip_sum::GossipSum::new(trial), trial)),
    Baseline::new("gossip, one-node abuser", "1", |trial| simulate(gossip_sum::GossipSum::new(trial), trial))
        .at_one_node(),
    Baseline::new("gossip, maximum", "1", |trial| simulate(gossip_max::GossipMax::new(trial), trial)),
    Baseline::new("local budget, Redis", "1", |trial| simulate(local_budget::LocalBudget::new(trial), trial)),
    Baseline::new("rate estimation", "1", |trial| central(rate_estimation::RateEstimation::new(trial), trial))
        .of_bucket(),
    Baseline::new("delta merging", "N", |trial| simulate(delta_merge::DeltaMerge::new(trial), trial)),
    Baseline::new("sub-interval counter", "N", |trial| {
        simulate(sub_interval_counter::SubIntervalCounter::new(trial), trial)
    }),
    Baseline::new("Redis list, leaky", "1", |trial| central(redis_list::RedisList::new(trial), trial)).of_bucket(),
    Baseline::new("Memcached bucket, CAS", "1", |trial| simulate(memcached::Memcached::new(trial), trial)).of_bucket(),
    Baseline::new("Redis INCR", "1", |trial| central(redis_incr::RedisIncr::new(trial), trial)),
    Baseline::new("store: interpolated", "1", |trial| own(trial, Algorithm::SlidingWindow(Estimate::Interpolated))),
    Baseline::new("store: conservative", "1", |trial| own(trial, Algorithm::SlidingWindow(Estimate::Conservative))),
    Baseline::new("store: sliding_log", "1", |trial| own(trial, Algorithm::SlidingLog)),
    Baseline::new("store: fixed_window", "1", |trial| own(trial, Algorithm::FixedWindow)),
    Baseline::new("store: token_bucket", "1", |trial| own(trial, Algorithm::TokenBucket)).of_bucket(),
    Baseline::new("store: leaky_bucket", "1", |trial| own(trial, Algorithm::LeakyBucket)).of_bucket(),
];

/// Runs a store that decides each call.
fn central<S: central::StoreStep>(step: S, trial: &Trial) -> TrialResult {
    simulate(CentralStore(step), trial)
}

/// Runs an algorithm of the product in a store that decides each call.
fn own(trial: &Trial, algorithm: Algorithm) -> TrialResult {
    central(algorithms::OwnAlgorithm::new(trial, algorithm), trial)
}
