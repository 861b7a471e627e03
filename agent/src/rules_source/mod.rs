//! Sources of an agent's rules: files ([`watch`] reloads them), or rule sets published on the bus or in the store
//! ([`published`]).
//!
//! An invalid or older rule set never replaces the one in force.

mod error;
mod envoy;
mod folder;
mod files;
mod watch;
mod published;

pub use envoy::import_envoy;
pub use error::RulesFileError;
pub use files::{RulesFiles, RulesSource, read_rules};
pub(crate) use published::receive_published;
pub(crate) use watch::reload_on_change;
