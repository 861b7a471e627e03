//! Baselines: ways of limiting as their sources describe them, one file each.

mod counts;
mod nginx;
mod kong;
mod sticky;
mod local_share;
mod broadcast;

use super::network::{Outcome, Trial, simulate};

/// A baseline.
#[derive(Clone, Copy)]
pub(super) struct Baseline {
    pub(super) name: &'static str,
    /// Growth of the messages of a call with the number of nodes.
    pub(super) coordination: &'static str,
    /// True if its counter refills, so that only a long window shows a lag.
    pub(super) is_bucket: bool,
    /// True if the only abuser stays at one node.
    pub(super) is_at_one_node: bool,
    pub(super) run: fn(&Trial) -> Outcome,
}

impl Baseline {
    const fn new(name: &'static str, coordination: &'static str, run: fn(&Trial) -> Outcome) -> Self {
        Self { name, coordination, is_bucket: false, is_at_one_node: false, run }
    }

    const fn of_bucket(self) -> Self {
        Self { is_bucket: true, ..self }
    }
}

/// All baselines, in the order of the table.
pub(super) const BASELINES: [Baseline; 5] = [
    Baseline::new("nginx, per node", "none", |trial| simulate(nginx::Nginx::new(trial), trial)).of_bucket(),
    Baseline::new("Kong, per node", "none", |trial| simulate(kong::Kong::new(trial), trial)),
    Baseline::new("sticky sessions", "none", |trial| simulate(sticky::Sticky::new(trial), trial)),
    Baseline::new("local share", "none", |trial| simulate(local_share::LocalShare::new(trial), trial)),
    Baseline::new("broadcast", "N", |trial| simulate(broadcast::Broadcast::new(trial), trial)),
];
