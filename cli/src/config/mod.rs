//! Settings by precedence: flag, environment variable, `--config tollgate.yaml`, default.
//!
//! Clap parses flags, variables and defaults and checks their values. The values of a file become defaults before the
//! command line is parsed. Every flag therefore has a key of its name, which the same code checks, and there is one
//! order of precedence.

mod file;
mod precedence;
mod rollup_bytes;
mod show;

pub(crate) use file::ConfigFile;
pub(crate) use precedence::layer;
pub(crate) use show::ConfigArgs;
pub(crate) use show::run;
