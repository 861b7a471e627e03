//! Where an agent's rules come from while it runs: a file, or what was published on the bus or in the store.
//!
//! Whatever the source, a broken or older set never replaces the one in force.

mod file;
mod published;

pub(crate) use file::watch;
pub use file::{RulesFileError, read_rules};
pub(crate) use published::Follower;
