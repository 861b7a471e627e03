//! The experiments: their names in a file, and their parameters.
//!
//! A derived enum with a tag reads a table before it knows the kind, and loses the places of the values. The parameters are read
//! directly instead, so that an error has its line.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeValue, Error, ValueDeserializer};

use super::file::SettingError;
use super::{
    adversary, approximations, burst, false_denials, lag, lost_shard, price, real_traffic, regions, retry_storm,
    scale_out, ways,
};

#[derive(Clone, Debug)]
pub(super) enum Experiment {
    Approximations(approximations::ApproximationSettings),
    FalseDenials(false_denials::FalseDenialSettings),
    Burst(burst::BurstSettings),
    LostShard(lost_shard::LostShardSettings),
    RetryStorm(retry_storm::RetryStormSettings),
    Lag(lag::LagSettings),
    RealTraffic(real_traffic::RealTrafficSettings),
    Price(price::PriceSettings),
    Ways(ways::WaySettings),
    Adversary(adversary::AdversarySettings),
    ScaleOut(scale_out::ScaleOutSettings),
    Regions(regions::GlobalQuotaSettings),
}

/// Name of an experiment in a file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ExperimentKind {
    Approximations,
    FalseDenials,
    Burst,
    LostShard,
    RetryStorm,
    Lag,
    RealTraffic,
    Price,
    Ways,
    Adversary,
    ScaleOut,
    Regions,
}

/// The field that decides which others an experiment has.
#[derive(Debug, Deserialize)]
struct KindField {
    kind: ExperimentKind,
}

impl Experiment {
    pub(super) fn read(mut value: Spanned<DeValue<'_>>) -> Result<Self, Error> {
        let KindField { kind } = KindField::deserialize(ValueDeserializer::from(value.clone()))?;
        if let DeValue::Table(table) = value.get_mut() {
            table.remove("kind");
        }
        match kind {
            ExperimentKind::Approximations => parameters(value).map(Self::Approximations),
            ExperimentKind::FalseDenials => parameters(value).map(Self::FalseDenials),
            ExperimentKind::Burst => parameters(value).map(Self::Burst),
            ExperimentKind::LostShard => parameters(value).map(Self::LostShard),
            ExperimentKind::RetryStorm => parameters(value).map(Self::RetryStorm),
            ExperimentKind::Lag => parameters(value).map(Self::Lag),
            ExperimentKind::RealTraffic => parameters(value).map(Self::RealTraffic),
            ExperimentKind::Price => parameters(value).map(Self::Price),
            ExperimentKind::Ways => parameters(value).map(Self::Ways),
            ExperimentKind::Adversary => parameters(value).map(Self::Adversary),
            ExperimentKind::ScaleOut => parameters(value).map(Self::ScaleOut),
            ExperimentKind::Regions => parameters(value).map(Self::Regions),
        }
    }

    /// Refuses parameters that do not fit.
    pub(super) fn check(&self) -> Result<(), SettingError> {
        match self {
            Self::Approximations(settings) => settings.check(),
            Self::FalseDenials(settings) => settings.check(),
            Self::Burst(settings) => settings.check(),
            Self::LostShard(settings) => settings.check(),
            Self::RetryStorm(settings) => settings.check(),
            Self::Lag(settings) => settings.check(),
            Self::RealTraffic(settings) => settings.check(),
            Self::Price(settings) => settings.check(),
            Self::Ways(settings) => settings.check(),
            Self::Adversary(settings) => settings.check(),
            Self::ScaleOut(settings) => settings.check(),
            Self::Regions(settings) => settings.check(),
        }
    }

    /// Returns the names of the numbers of the experiment.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Approximations(_) => approximations::names(),
            Self::FalseDenials(settings) => settings.names(),
            Self::Burst(settings) => settings.names(),
            Self::LostShard(settings) => settings.names(),
            Self::RetryStorm(_) => retry_storm::names(),
            Self::Lag(settings) => settings.names(),
            Self::RealTraffic(settings) => settings.names(),
            Self::Price(settings) => settings.names(),
            Self::Ways(settings) => settings.names(),
            Self::Adversary(settings) => settings.names(),
            Self::ScaleOut(settings) => settings.names(),
            Self::Regions(settings) => settings.names(),
        }
    }
}

fn parameters<S: DeserializeOwned>(value: Spanned<DeValue<'_>>) -> Result<S, Error> {
    S::deserialize(ValueDeserializer::from(value))
}
