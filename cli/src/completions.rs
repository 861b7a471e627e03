//! `tollgate completions`: the words that a shell completes, from the definitions that parse the command line.
//!
//! The scripts are static. They complete commands, flags, listed values and paths, and never values of settings.

use clap::Command;
use clap_complete::Shell;
use tollgate_command::exit::Exit;
use tollgate_command::output;

/// Prints the completions of commands and flags for a shell
///
/// The package installs those of Bash, Zsh and fish. For the current Bash alone: source <(tollgate completions bash)
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads them
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs, whole: &Command) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut without_hidden(whole), whole.get_name(), &mut script);
    output::say(String::from_utf8(script)?)?;
    Ok(Exit::Done)
}

/// Returns the same command line without its hidden commands, which the scripts would complete.
fn without_hidden(whole: &Command) -> Command {
    let visible = whole.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new(whole.get_name().to_owned())
        .version(whole.get_version().unwrap_or_default().to_owned())
        .disable_help_subcommand(true)
        .args(whole.get_arguments())
        .subcommands(visible.cloned())
}
