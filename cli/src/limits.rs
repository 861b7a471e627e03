//! Source of a command's rules: `--rules FILE` or `--rules DIR`, `--limit "100/min per ip"`, once or several times, or `--envoy-config DIR`.

use std::path::PathBuf;

use anyhow::bail;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use tollgate::{Builder, RuleSet, RulesSource};
use tollgate_command::exit::Usage;
use tollgate_core::clock::Clock;
use tollgate_rules::import::EnvoySettings;
use tollgate_rules::{from_shorthand, hint};

/// Rule of `tollgate up` without a source.
pub(crate) const LIMIT_DEFAULT: &str = "100/min per api_key";

/// The chosen source. A flag wins over an environment variable, as for every flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    Unset,
    From(RulesSource),
    /// Rules in short form.
    Short(Vec<String>),
}

impl Limits {
    /// Gives the rules to the builder of an agent, if a source is chosen.
    ///
    /// # Errors
    /// When the short form is invalid, or counts by a descriptor that no request has.
    pub(crate) fn apply(&self, builder: Builder, clock: &dyn Clock) -> anyhow::Result<Builder> {
        Ok(match self {
            Self::From(from) => builder.rules_from(from.clone()),
            Self::Short(limits) => builder.rules(short_rules(limits, clock)?),
            Self::Unset => builder,
        })
    }
}

/// Returns rules in short form.
///
/// # Errors
/// When the short form is invalid, or counts by a descriptor that no request has.
pub(crate) fn short_rules(limits: &[String], clock: &dyn Clock) -> anyhow::Result<RuleSet> {
    let rules = from_shorthand(limits, clock.now().as_ms())?;
    if let Some((name, hint)) = unknown_descriptor(&rules, rules.descriptors.iter().map(|spec| &*spec.name)) {
        bail!(Usage(format!(
            "--limit counts by `{name}`, which no request has unless a rules file (--rules FILE) declares it{hint}"
        )));
    }
    Ok(rules)
}

/// Returns the first descriptor in `per` that is not known, and a hint at a known one.
pub(crate) fn unknown_descriptor<'r, 'k>(
    rules: &'r RuleSet,
    known: impl Iterator<Item = &'k str> + Clone,
) -> Option<(&'r str, String)> {
    let mut names = rules.rules.iter().flat_map(|rule| &rule.per).map(|name| &**name);
    let name = names.find(|name| known.clone().all(|known| known != *name))?;
    Some((name, hint(name, known)))
}

#[derive(Args)]
struct LimitFlags {
    /// Rules to enforce, as YAML, or a folder with *.yaml files; repeat the flag for more files, which are one set of rules
    #[arg(long, value_name = "FILE", value_delimiter = ';')]
    rules: Vec<PathBuf>,
    /// Rule instead of a file, such as "100/min per ip"; repeat the flag for more rules, or separate them by `;`
    #[arg(long, value_name = "LIMIT", value_delimiter = ';')]
    limit: Vec<String>,
    /// A folder with a configuration of envoyproxy/ratelimit, read as it is
    #[arg(long, value_name = "DIR")]
    envoy_config: Option<PathBuf>,
    #[command(flatten)]
    envoy: EnvoyFlags,
}

/// Interpretation of a configuration of envoyproxy/ratelimit.
#[derive(Args)]
#[expect(clippy::struct_field_names, reason = "fields name their flags")]
pub(crate) struct EnvoyFlags {
    /// Domains of that configuration in which a call counts under all its limits or under none; in other domains it counts
    /// under each limit, even if another limit denies it
    #[arg(long, value_name = "DOMAINS", value_delimiter = ',')]
    envoy_all_or_none: Vec<String>,
    /// Allows several files of that configuration to share a domain
    #[arg(long)]
    envoy_merge_domains: bool,
    /// Domains of that configuration in which negative hits give units back
    #[arg(long, value_name = "DOMAINS", value_delimiter = ',')]
    envoy_refunds: Vec<String>,
    /// Puts all limits of that configuration in quota mode, which denies a request only if it is over all of them
    #[arg(long)]
    envoy_quota_mode: bool,
}

impl EnvoyFlags {
    pub(crate) fn settings(&self) -> EnvoySettings {
        EnvoySettings {
            all_or_none: self.envoy_all_or_none.clone(),
            merge_domains: self.envoy_merge_domains,
            refunds: self.envoy_refunds.clone(),
            quota_mode: self.envoy_quota_mode,
        }
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
            ("rules", (!rules.is_empty()).then_some(Self::From(RulesSource::Files(rules)))),
            ("limit", (!limit.is_empty()).then_some(Self::Short(limit))),
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
