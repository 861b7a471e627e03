//! Where a command's rules come from: `--rules FILE` or `--limit "100/min per ip"`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use tollgate::{Builder, RuleSet};
use tollgate_common::clock::Clock;
use tollgate_common::rule::ShorthandError;

/// What the user chose, if anything; a flag wins over an environment variable, as everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// Neither.
    Unsaid,
    /// Rules from a file.
    File(PathBuf),
    /// One rule in short form.
    Limit(String),
}

impl Limits {
    /// Has an agent enforce them; unsaid, it is told nothing.
    ///
    /// # Errors
    /// When the short form is none.
    pub(crate) fn apply(&self, builder: Builder, clock: &dyn Clock) -> Result<Builder, ShorthandError> {
        Ok(match self {
            Self::File(path) => builder.rules_file(path),
            Self::Limit(limit) => builder.rules(RuleSet::from_shorthand(limit, clock.now().as_ms())?),
            Self::Unsaid => builder,
        })
    }
}

#[derive(Args)]
struct Flags {
    /// Rules to enforce, as YAML
    #[arg(long, value_name = "FILE", env = "TOLLGATE_RULES", hide_env_values = true)]
    rules: Option<PathBuf>,
    /// One rule instead of a file, such as "100/min per ip"
    #[arg(long, value_name = "LIMIT", env = "TOLLGATE_LIMIT", hide_env_values = true)]
    limit: Option<String>,
}

impl Args for Limits {
    fn augment_args(command: Command) -> Command {
        Flags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Flags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Limits {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let typed = |flag| matches.value_source(flag) == Some(ValueSource::CommandLine);
        match Flags::from_arg_matches(matches)? {
            Flags { rules: None, limit: None } => Ok(Self::Unsaid),
            Flags { rules: Some(file), limit } if limit.is_none() || typed("rules") && !typed("limit") => {
                Ok(Self::File(file))
            }
            Flags { rules, limit: Some(limit) } if rules.is_none() || typed("limit") && !typed("rules") => {
                Ok(Self::Limit(limit))
            }
            Flags { .. } => {
                let text = "both --rules (TOLLGATE_RULES) and --limit (TOLLGATE_LIMIT) are given; leave one out\n";
                Err(clap::Error::raw(ErrorKind::ArgumentConflict, text))
            }
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
