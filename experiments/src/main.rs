//! `tollgate-lab`: the laboratory's command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    tollgate_librdkafka::link();
    ExitCode::from(tollgate_lab::command::main() as u8)
}
