//! The table of experiments, their names in a file, and their parameters.
//!
//! A derived enum with a tag reads a table before it knows the kind, and loses the places of the values. The parameters are read
//! directly instead, so that an error has its line.

use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;
use toml::de::{DeValue, Error, ValueDeserializer};

use super::adversary::AdversarySettings;
use super::approximations::ApproximationSettings;
use super::burst::BurstSettings;
use super::experiment::{Experiment, RegisteredExperiment};
use super::false_denials::FalseDenialSettings;
use super::lag::LagSettings;
use super::lost_shard::LostShardSettings;
use super::mixed_rules::MixedRulesSettings;
use super::price::PriceSettings;
use super::real_traffic::RealTrafficSettings;
use super::regions::GlobalQuotaSettings;
use super::retry_storm::RetryStormSettings;
use super::scale_out::ScaleOutSettings;
use super::sub_windows::SubWindowsSettings;
use super::ways::WaySettings;

/// The experiments. A new one is a folder with its settings, which implement [`Experiment`], a line `mod` in `mod.rs`, and a row
/// here.
pub(super) const EXPERIMENTS: &[RegisteredExperiment] = &[
    RegisteredExperiment::new::<ApproximationSettings>(
        "approximations",
        include_str!("../../scenarios/approximations.toml"),
    ),
    RegisteredExperiment::new::<FalseDenialSettings>(
        "false-denials",
        include_str!("../../scenarios/false-denials.toml"),
    ),
    RegisteredExperiment::new::<BurstSettings>("burst", include_str!("../../scenarios/burst.toml")),
    RegisteredExperiment::new::<LostShardSettings>("lost-shard", include_str!("../../scenarios/lost-shard.toml")),
    RegisteredExperiment::new::<RetryStormSettings>("retry-storm", include_str!("../../scenarios/retry-storm.toml")),
    RegisteredExperiment::new::<LagSettings>("lag", include_str!("../../scenarios/lag.toml")),
    RegisteredExperiment::new::<RealTrafficSettings>("real-traffic", include_str!("../../scenarios/real-traffic.toml")),
    RegisteredExperiment::new::<PriceSettings>("price", include_str!("../../scenarios/price.toml")),
    RegisteredExperiment::new::<MixedRulesSettings>("mixed-rules", include_str!("../../scenarios/mixed-rules.toml")),
    RegisteredExperiment::new::<SubWindowsSettings>("sub-windows", include_str!("../../scenarios/sub-windows.toml")),
    RegisteredExperiment::new::<WaySettings>("ways", include_str!("../../scenarios/ways.toml")),
    RegisteredExperiment::new::<AdversarySettings>("adversary", include_str!("../../scenarios/adversary.toml")),
    RegisteredExperiment::new::<ScaleOutSettings>("scale-out", include_str!("../../scenarios/scale-out.toml")),
    RegisteredExperiment::new::<GlobalQuotaSettings>("regions", include_str!("../../scenarios/regions.toml")),
];

/// Position of an experiment in the table.
struct ExperimentIndex(usize);

/// The field that decides which others an experiment has.
#[derive(Deserialize)]
struct KindField {
    kind: ExperimentIndex,
}

impl<'de> Deserialize<'de> for ExperimentIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let index = EXPERIMENTS.iter().position(|registered| registered.name == name);
        let names = || EXPERIMENTS.iter().map(|registered| format!("`{}`", registered.name)).collect::<Vec<_>>();
        let unknown = || D::Error::custom(format!("unknown variant `{name}`, expected one of {}", names().join(", ")));
        index.map(Self).ok_or_else(unknown)
    }
}

/// Reads the table of an experiment.
pub(super) fn read_experiment(mut value: Spanned<DeValue<'_>>) -> Result<Arc<dyn Experiment>, Error> {
    let KindField { kind } = KindField::deserialize(ValueDeserializer::from(value.clone()))?;
    if let DeValue::Table(table) = value.get_mut() {
        table.remove("kind");
    }
    (EXPERIMENTS[kind.0].read)(value)
}
