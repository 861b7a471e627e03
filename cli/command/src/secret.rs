//! Secrets: accepted from the environment or a file only, because every user of a machine can read command lines, and never
//! printed.

use clap::ArgMatches;
use clap::parser::ValueSource;

use crate::exit::Usage;

/// Flags whose values may hold a password, so no error may repeat them.
pub const FLAGS: [&str; 4] = ["redis", "kafka_set", PASSWORDS[0], PASSWORDS[1]];
/// Flags whose values are passwords.
const PASSWORDS: [&str; 2] = ["redis_password", "kafka_password"];
/// Parts of names of secret settings.
const WORDS: [&str; 6] = ["password", "passphrase", "secret", "token", "key.pem", "jaas"];

/// Refuses passwords on a command line.
///
/// # Errors
/// If there is one.
pub fn refuse_on_command_line(matches: &ArgMatches) -> Result<(), Usage> {
    for id in FLAGS {
        let typed = matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(ValueSource::CommandLine);
        let mut values = matches.try_get_raw(id).ok().flatten().into_iter().flatten();
        if typed && values.any(|value| shown(id, &value.to_string_lossy()) != value.to_string_lossy()) {
            let (flag, variable) = (id.replace('_', "-"), id.to_uppercase());
            return Err(Usage(format!(
                "--{flag} holds a password, which everyone on this machine can read in the list of processes; put it into TOLLGATE_{variable}, or under `{id}` in the file of --config"
            )));
        }
    }
    matches.subcommand().map_or(Ok(()), |(_, inner)| refuse_on_command_line(inner))
}

/// Splits a text such as `a=1,b=2` into settings. A comma separates two settings if a name and `=` follow it; otherwise it
/// belongs to the value, as in `a=1,2`.
#[must_use]
pub fn settings(text: &str) -> Vec<&str> {
    let commas = text.match_indices(',').map(|(comma, _)| comma);
    let (mut found, mut from) = (Vec::new(), 0);
    for comma in commas.filter(|comma| begins_with_name(&text[comma + 1..])) {
        found.push(&text[from..comma]);
        from = comma + 1;
    }
    found.push(&text[from..]);
    found
}

fn begins_with_name(text: &str) -> bool {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_');
    let name = text.trim_start().split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(legal))
}

/// Returns the value of a flag with this id as it may be printed.
#[must_use]
pub fn shown(id: &str, value: &str) -> String {
    if PASSWORDS.contains(&id) { "***".to_owned() } else { hidden(value) }
}

/// Returns a value that may be printed: stars replace the passwords of a URL and the values of secret settings.
#[must_use]
pub fn hidden(value: &str) -> String {
    match value.split_once('=') {
        Some((name, _)) if !name.contains([':', '@']) => {
            let shown: Vec<String> = settings(value).into_iter().map(hidden_in_setting).collect();
            shown.join(",")
        }
        _ if value.contains("://") => hidden_in_url(value),
        _ => hidden_in_place(value),
    }
}

fn hidden_in_setting(setting: &str) -> String {
    let Some((name, value)) = setting.split_once('=') else { return setting.to_owned() };
    let is_secret = WORDS.iter().any(|word| name.to_ascii_lowercase().contains(word));
    let value = if is_secret { "***".to_owned() } else { hidden_in_url(value) };
    format!("{name}={value}")
}

fn hidden_in_url(url: &str) -> String {
    url.split_once("://")
        .map_or_else(|| url.to_owned(), |(scheme, rest)| format!("{scheme}://{}", hidden_in_place(rest)))
}

/// Hides the password in the part of a URL after its scheme. A password may contain separators, so it extends to the last
/// `@`.
fn hidden_in_place(rest: &str) -> String {
    // The password of a Unix socket is in the query, and a path may have any sign.
    if rest.starts_with('/') {
        return rest
            .split_once('?')
            .map_or_else(|| rest.to_owned(), |(path, query)| format!("{path}?{}", hidden_in_query(query)));
    }
    let rest = match rest.rsplit_once('@').map(|(user, host)| (user.split_once(':'), host)) {
        Some((Some((user, _)), host)) => format!("{user}:***@{host}"),
        _ => rest.to_owned(),
    };
    match rest.split_once('?') {
        Some((path, query)) => format!("{path}?{}", hidden_in_query(query)),
        None => rest,
    }
}

fn hidden_in_query(query: &str) -> String {
    // A `&` that is not escaped may belong to the password.
    let mut is_behind_password = false;
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if name.to_ascii_lowercase().starts_with("pass") => {
            is_behind_password = true;
            format!("{name}=***")
        }
        Some(("db" | "user", _)) => pair.to_owned(),
        _ if is_behind_password => "***".to_owned(),
        _ => pair.to_owned(),
    });
    shown.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_stars() {
        for (value, shown) in [
            ("redis://:pw@host:1/2", "redis://:***@host:1/2"),
            ("redis://u:p@w@host", "redis://u:***@host"),
            ("redis://:password=1,a=2@host", "redis://:***@host"),
            ("redis://:p?w/@host/2", "redis://:***@host/2"),
            (":p=w@host", ":***@host"),
            ("unix:///run/redis.sock?pass=pw", "unix:///run/redis.sock?pass=***"),
            ("unix:///run/redis.sock?pass=p&w&db=1", "unix:///run/redis.sock?pass=***&***&db=1"),
            ("unix:///run/a:b.sock?user=u:v&pass=p@w", "unix:///run/a:b.sock?user=u:v&pass=***"),
            ("unix:///run/redis.sock?db=2&pass=p=w&user=u", "unix:///run/redis.sock?db=2&pass=***&user=u"),
            ("sasl.password=pw", "sasl.password=***"),
            ("sasl.password=p,w", "sasl.password=***"),
            ("sasl.username=u,sasl.password=pw,a.b=1", "sasl.username=u,sasl.password=***,a.b=1"),
            ("sasl.username=u, sasl.password=pw", "sasl.username=u, sasl.password=***"),
            ("a.url=http://u:pw@host,b=1", "a.url=http://u:***@host,b=1"),
        ] {
            assert_eq!(hidden(value), shown);
        }
        for open in ["redis://host", "redis://u@host", "unix:///a:b?db=1", "sasl.username=u", "a=1,2, b=3,", "x", ""] {
            assert_eq!(hidden(open), open);
        }
    }

    #[test]
    fn a_comma_is_between_settings_only_where_a_name_follows() {
        for (text, expected) in [
            ("a.b=1", &["a.b=1"][..]),
            ("a.b=1,c_d=2", &["a.b=1", "c_d=2"]),
            ("a=1,2,3,b=x,y", &["a=1,2,3", "b=x,y"]),
            ("a=1, b=2", &["a=1", " b=2"]),
            ("a=x,Y=z,=1,,b=", &["a=x,Y=z,=1,", "b="]),
            ("é,a=1", &["é", "a=1"]),
            ("", &[""]),
        ] {
            assert_eq!(settings(text), expected, "{text}");
        }
    }
}
