//! `tollgate-lab`: the laboratory's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(tollgate_lab::command::main() as u8)
}
