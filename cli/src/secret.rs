//! Secrets: given by environment or file, since everyone on a machine sees its command lines, and never shown.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::exit::Usage;

/// Flags whose values may hold a password.
const FLAGS: [(&str, &str); 2] = [("redis", "TOLLGATE_REDIS"), ("kafka_set", "TOLLGATE_KAFKA_SET")];

/// Refuses passwords on a command line.
///
/// # Errors
/// When there is one.
pub(crate) fn refuse_on_command_line(matches: &ArgMatches) -> Result<(), Usage> {
    for (id, variable) in FLAGS {
        let typed = matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
        if typed && values.any(|value| hidden(&value.to_string_lossy()) != value.to_string_lossy()) {
            let flag = id.replace('_', "-");
            return Err(Usage(format!(
                "--{flag} holds a password, which everyone on this machine can read in the list of processes; put it into {variable}, or under `{id}` in the file of --config"
            )));
        }
    }
    // A command may have commands of its own.
    matches.subcommand().map_or(Ok(()), |(_, inner)| refuse_on_command_line(inner))
}

/// A value as it may be shown: the password of a URL and the values of secret settings are stars.
pub(crate) fn hidden(value: &str) -> String {
    if let Some((name, _)) = value.split_once('=')
        && ["password", "secret", "token", "key.pem"].iter().any(|word| name.contains(word))
    {
        return format!("{name}=***");
    }
    let Some((scheme, rest)) = value.split_once("://") else { return value.to_owned() };
    match rest.split_once('@') {
        Some((user, host)) if user.contains(':') => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}:***@{host}")
        }
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_stars() {
        assert_eq!(hidden("redis://:pw@host:1/2"), "redis://:***@host:1/2");
        assert_eq!(hidden("sasl.password=pw"), "sasl.password=***");
        assert_eq!(hidden("redis://host"), "redis://host");
        assert_eq!(hidden("sasl.username=u"), "sasl.username=u");
    }
}
