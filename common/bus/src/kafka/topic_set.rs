//! Topics that one bus carries: a deployment has its own, and the deployments of all regions share the ledger and the usage.
//!
//! The shared topics have a bus each, so that no failure of the usage, which is for display, stops the ledger. A
//! deployment must not create a ledger of its own, and the bus of the ledger must not create a deployment's topics in
//! the home cluster.

use crate::Topic;

/// Topics of a bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TopicSet {
    /// The topics of a deployment.
    #[default]
    Deployment,
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
            Self::Ledger | Self::LedgerMirror(_) => &[Topic::Ledger],
            Self::Usage | Self::UsageMirror(_) => &[Topic::Usage],
        }
    }

    /// Returns the only topic of a mirror, and its name.
    pub(super) fn mirror(&self) -> Option<(Topic, &str)> {
        match self {
            Self::LedgerMirror(name) => Some((Topic::Ledger, name)),
            Self::UsageMirror(name) => Some((Topic::Usage, name)),
            Self::Deployment | Self::Ledger | Self::Usage => None,
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
