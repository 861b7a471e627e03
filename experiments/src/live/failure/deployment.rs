//! The Redis of a run: one server, or several of which one takes over when a primary is lost.

use strum::{EnumString, IntoStaticStr, VariantArray};

/// Redis of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum RedisDeployment {
    /// One server behind a proxy.
    Single,
    /// A cluster of three primaries with a replica each, with TLS.
    Cluster,
    /// A primary, two replicas and three Sentinels, with TLS.
    Sentinel,
}

impl RedisDeployment {
    /// Returns all deployments, in the order in which they are run.
    #[must_use]
    pub fn all() -> &'static [Self] {
        Self::VARIANTS
    }

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns true if a replica takes over from a lost primary.
    #[must_use]
    pub fn fails_over(self) -> bool {
        self != Self::Single
    }
}
