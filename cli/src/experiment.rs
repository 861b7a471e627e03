//! `tollgate experiment`: tells where the laboratory is.

use std::ffi::OsString;

use tollgate_command::exit::{Exit, Usage};

const MOVED: &str = "experiments are in the program tollgate-lab; in Tollgate's sources, run it with `cargo run --release -p tollgate-lab -- --help`";

/// Experiments are in `tollgate-lab`
#[derive(clap::Args)]
pub(crate) struct ExperimentArgs {
    /// Arguments of earlier versions, which may hold passwords and are not repeated
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _words: Vec<OsString>,
}

pub(crate) fn run(_: &ExperimentArgs) -> anyhow::Result<Exit> {
    Err(Usage(MOVED.to_owned()).into())
}
