//! One publication that is kept, with its generation and time.

use std::env;

use anyhow::Context;
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::{Generation, RuleSet};
use tollgate_rules::display;

/// A publication that is kept.
#[derive(Clone, Debug)]
pub(in super::super) struct KeptPublication {
    pub(in super::super) generation: Generation,
    /// Time of the publication, by the clock of its server.
    pub(in super::super) at: Timestamp,
    pub(in super::super) published: Published,
}

impl KeptPublication {
    /// Returns the rules of the publication.
    pub(in super::super) fn rules(&self) -> anyhow::Result<RuleSet> {
        let rules = tollgate_rules::read_published(&self.published, self.generation);
        rules.with_context(|| format!("generation {} cannot be read by this version", self.generation))
    }
}

/// Returns a time to the second, in UTC.
pub(in super::super) fn utc(at: Timestamp) -> String {
    display::utc(Timestamp::from_ms(at.as_ms() / 1_000 * 1_000))
}

/// Returns the user and the machine of this process, such as `ann@host`.
pub(in super::super) fn author() -> String {
    let user = ["USER", "LOGNAME"].iter().find_map(|name| env::var(name).ok()).filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| format!("uid-{}", rustix::process::getuid().as_raw()));
    format!("{user}@{}", rustix::system::uname().nodename().to_string_lossy())
}
