//! Stand-in for the sources of rules in a build without the feature `rules-file`, which cannot parse published rules.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

/// Receiver of published rules. No value of it exists.
pub(crate) enum RulesReceiver {}

impl RulesReceiver {
    pub(crate) fn receive(&self, _: Generation, _: Option<Timestamp>, _: Published) {
        match *self {}
    }
}
