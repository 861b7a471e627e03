//! `tollgate experiment`: tells where the laboratory is.

use std::ffi::OsString;

use tollgate_command::exit::{Exit, Usage};

/// Experiments are in `tollgate-lab`
#[derive(clap::Args)]
pub(crate) struct ExperimentArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(args: &ExperimentArgs) -> anyhow::Result<Exit> {
    let words: Vec<_> = args.words.iter().map(|word| word.to_string_lossy()).collect();
    let words = if words.is_empty() { "--help".into() } else { words.join(" ") };
    let text = format!(
        "experiments are in the program tollgate-lab; in Tollgate's sources: cargo run --release -p tollgate-lab -- {words}"
    );
    Err(Usage(text).into())
}
