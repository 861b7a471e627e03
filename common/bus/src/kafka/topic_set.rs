//! Topics that one bus carries: those by which a deployment limits, those by which it shows calls, and the ledger and the usage,
//! which the deployments of all regions share.
//!
//! Topics for display have buses of their own, so that a missing one, or a missing right, stops neither limits nor the ledger. A
//! deployment must not create a ledger of its own, and the bus of the ledger must not create a deployment's topics in
//! the home cluster.

use crate::Topic;

/// Topics of a bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TopicSet {
    /// The topics by which a deployment limits calls.
    #[default]
    Deployment,
    /// The topics by which the aggregators of a deployment show calls.
    Analytics,
    /// The decisions of a deployment, for readers of any kind.
    Decisions,
    /// The ledger, in the home cluster of all regions.
    Ledger,
    /// A mirror of the ledger in another cluster, with the name that the mirror gives the topic. It is only read, and never
    /// created.
    LedgerMirror(String),
    /// The usage of all regions, in their home cluster.
    Usage,
    /// A mirror of the usage, as that of the ledger.
    UsageMirror(String),
}

impl TopicSet {
    /// Returns the mirror of the usage that belongs to a mirror of the ledger: `home.usage` to `home.ledger`. Returns nothing if the
    /// name does not contain `ledger`.
    #[must_use]
    pub fn usage_mirror(ledger: &str) -> Option<Self> {
        let (before, after) = ledger.rsplit_once(Topic::Ledger.as_str())?;
        Some(Self::UsageMirror(format!("{before}{}{after}", Topic::Usage.as_str())))
    }

    pub(super) const fn topics(&self) -> &'static [Topic] {
        match self {
            Self::Deployment => &Topic::OF_DEPLOYMENT,
            Self::Analytics => &Topic::OF_ANALYTICS,
            Self::Decisions => &[Topic::Decisions],
            Self::Ledger | Self::LedgerMirror(_) => &[Topic::Ledger],
            Self::Usage | Self::UsageMirror(_) => &[Topic::Usage],
        }
    }

    /// Returns the only topic of a mirror, and its name.
    pub(super) fn mirror(&self) -> Option<(Topic, &str)> {
        match self {
            Self::LedgerMirror(name) => Some((Topic::Ledger, name)),
            Self::UsageMirror(name) => Some((Topic::Usage, name)),
            Self::Deployment | Self::Analytics | Self::Decisions | Self::Ledger | Self::Usage => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_names_the_usage_as_it_names_the_ledger() {
        let cases = [
            ("ledger", Some("usage")),
            ("home.ledger", Some("home.usage")),
            ("ledger.tg-ledger", Some("ledger.tg-usage")),
            ("ledger.replica", Some("usage.replica")),
            ("book", None),
        ];
        for (ledger, usage) in cases {
            let expected = usage.map(|name| TopicSet::UsageMirror(name.to_owned()));
            assert_eq!(TopicSet::usage_mirror(ledger), expected, "{ledger}");
        }
    }
}
