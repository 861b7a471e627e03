//! Source of a command's rules: `--rules FILE`, `--limit "100/min per ip"` or `--envoy-config DIR`.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use tollgate::{Builder, RulesSource};
use tollgate_core::clock::Clock;
use tollgate_rules::ShorthandError;
use tollgate_rules::import::EnvoySettings;

/// The chosen source. A flag wins over an environment variable, as for every flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// No source is chosen.
    Unset,
    /// Rules from files.
    From(RulesSource),
    /// One rule in short form.
    Limit(String),
}

impl Limits {
    /// Gives the rules to the builder of an agent, if a source is chosen.
    ///
    /// # Errors
    /// When the short form is invalid.
    pub(crate) fn apply(&self, builder: Builder, clock: &dyn Clock) -> Result<Builder, ShorthandError> {
        Ok(match self {
            Self::From(from) => builder.rules_from(from.clone()),
            Self::Limit(limit) => builder.rules(tollgate_rules::from_shorthand(limit, clock.now().as_ms())?),
            Self::Unset => builder,
        })
    }
}

#[derive(Args)]
struct LimitFlags {
    /// Rules to enforce, as YAML
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// One rule instead of a file, such as "100/min per ip"
    #[arg(long, value_name = "LIMIT")]
    limit: Option<String>,
    /// A folder with a configuration of envoyproxy/ratelimit, read as it is
    #[arg(long, value_name = "DIR")]
    envoy_config: Option<PathBuf>,
    #[command(flatten)]
    envoy: EnvoyFlags,
}

/// Interpretation of a configuration of envoyproxy/ratelimit.
#[derive(Args)]
pub(crate) struct EnvoyFlags {
    /// Domains of that configuration in which a call counts under all its limits or under none; in other domains it counts
    /// under each limit, even if another limit denies it
    #[arg(long, value_name = "DOMAINS", value_delimiter = ',')]
    envoy_all_or_none: Vec<String>,
    /// Allows several files of that configuration to share a domain
    #[arg(long)]
    envoy_merge_domains: bool,
}

impl EnvoyFlags {
    pub(crate) fn settings(&self) -> EnvoySettings {
        EnvoySettings { all_or_none: self.envoy_all_or_none.clone(), merge_domains: self.envoy_merge_domains }
    }
}

impl Args for Limits {
    fn augment_args(command: Command) -> Command {
        LimitFlags::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        LimitFlags::augment_args_for_update(command)
    }
}

impl FromArgMatches for Limits {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let LimitFlags { rules, limit, envoy_config, envoy } = LimitFlags::from_arg_matches(matches)?;
        let of_envoy = |folder| RulesSource::Envoy(folder, envoy.settings());
        let chosen = [
            ("rules", rules.map(RulesSource::File).map(Self::From)),
            ("limit", limit.map(Self::Limit)),
            ("envoy_config", envoy_config.map(of_envoy).map(Self::From)),
        ];
        let typed = |flag: &str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        let mut given: Vec<_> = chosen.into_iter().filter_map(|(flag, limits)| Some((flag, limits?))).collect();
        if given.iter().any(|(flag, _)| typed(flag)) {
            given.retain(|(flag, _)| typed(flag));
        }
        if given.len() > 1 {
            let name =
                |(flag, _): &(&str, Self)| format!("--{} (TOLLGATE_{})", flag.replace('_', "-"), flag.to_uppercase());
            let names: Vec<_> = given.iter().map(name).collect();
            let text = match &names[..] {
                [one, other] => format!("both {one} and {other} are given; leave one out\n"),
                all => format!("{} are given; leave all but one out\n", all.join(", ")),
            };
            return Err(clap::Error::raw(ErrorKind::ArgumentConflict, text));
        }
        Ok(given.pop().map_or(Self::Unset, |(_, limits)| limits))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
