//! Imports: the configuration of other limiters as a rules file.
//!
//! An import returns text and not rules, so that the text is validated by the parser of every rules file and can be
//! read, kept and changed. Limits that a rules file cannot express are refused; settings that change no limit (metrics)
//! are dropped with a warning. Deliberately left out: reading the files, which the agent and the command line do.

mod findings;
mod write;
mod envoy;
mod params;

pub use envoy::{EnvoySettings, envoy_names, from_envoy, is_envoy};
pub use findings::{Foreign, Imported};
pub use params::from_params;
