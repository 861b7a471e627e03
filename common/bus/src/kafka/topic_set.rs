//! Topics that one bus carries: a deployment has its own, and the ledger is one for the deployments of all regions.

use crate::Topic;

/// Topics of a bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TopicSet {
    /// The topics of a deployment: all but the ledger.
    #[default]
    Deployment,
    /// The ledger, in the home cluster of all regions.
    Ledger,
    /// A mirror of the ledger in another cluster, with the name that the mirror gives the topic. It is only read, and never
    /// created.
    LedgerMirror(String),
}

impl TopicSet {
    /// Returns the topics.
    pub(super) const fn topics(&self) -> &'static [Topic] {
        match self {
            Self::Deployment => &Topic::OF_DEPLOYMENT,
            Self::Ledger | Self::LedgerMirror(_) => &[Topic::Ledger],
        }
    }
}
