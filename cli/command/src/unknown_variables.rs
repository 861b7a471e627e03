//! Environment variables that look like settings and are read by nothing: a mistyped name must not leave a default in silence.

use clap::{Arg, Command};

/// Variables that are read beside those of the flags.
const OTHERS: [&str; 1] = ["TOLLGATE_LOG"];
/// Prefix of the variables of the tests of this project.
const OF_TESTS: &str = "TOLLGATE_TEST_";
/// Least similarity of a name that is suggested.
const SIMILAR_MIN: f64 = 0.7;

/// Returns the names among these that begin with `TOLLGATE_` and that no flag of a command or of its subcommands reads. Each has the
/// most similar name that one reads, if there is one.
#[must_use]
pub fn unknown_variables(command: &Command, names: impl IntoIterator<Item = String>) -> Vec<(String, Option<String>)> {
    let mut known: Vec<String> = OTHERS.map(str::to_owned).to_vec();
    add_variables(command, &mut known);
    let is_unknown = |name: &String| {
        let is_setting = name.starts_with("TOLLGATE_") && !name.starts_with(OF_TESTS) && !is_of_service(name);
        is_setting && !known.contains(name)
    };
    let similar = |name: &str| {
        let similarity = |known: &&String| strsim::normalized_damerau_levenshtein(name, known);
        let likely = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
        (similarity(&likely) >= SIMILAR_MIN).then(|| likely.clone())
    };
    let mut unknown: Vec<String> = names.into_iter().filter(is_unknown).collect();
    unknown.sort();
    unknown.into_iter().map(|name| (name.clone(), similar(&name))).collect()
}

fn add_variables(command: &Command, known: &mut Vec<String>) {
    let variable = |arg: &Arg| Some(arg.get_env()?.to_str()?.to_owned());
    known.extend(command.get_arguments().filter_map(variable));
    command.get_subcommands().for_each(|command| add_variables(command, known));
}

/// Returns true for a variable that Kubernetes sets for a Service whose name begins with `tollgate`.
fn is_of_service(name: &str) -> bool {
    let ends = |suffix: &str| name.ends_with(suffix);
    let is_port =
        name.split("_PORT_").nth(1).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    ends("_SERVICE_HOST") || name.contains("_SERVICE_PORT") || ends("_PORT") || is_port
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(names: &[&str]) -> Vec<(String, Option<String>)> {
        let flag = |name: &'static str, variable: &'static str| Arg::new(name).long(name).env(variable);
        let agent = Command::new("agent").arg(flag("kafka", "TOLLGATE_KAFKA")).arg(flag("redis", "TOLLGATE_REDIS"));
        let command = Command::new("tollgate").arg(flag("config", "TOLLGATE_CONFIG")).subcommand(agent);
        unknown_variables(&command, names.iter().map(ToString::to_string))
    }

    #[test]
    fn a_mistyped_variable_is_found_with_its_likely_name() {
        let found = unknown(&["TOLLGATE_KAFAK", "TOLLGATE_REDIS", "TOLLGATE_LOG", "PATH", "TOLLGATE_QUITE_ANOTHER"]);
        let likely = |name: &str| Some(name.to_owned());
        let expected =
            [("TOLLGATE_KAFAK".to_owned(), likely("TOLLGATE_KAFKA")), ("TOLLGATE_QUITE_ANOTHER".to_owned(), None)];
        assert_eq!(found, expected);
    }

    /// A Service named `tollgate` or `tollgate-agent` in Kubernetes.
    #[test]
    fn variables_of_a_service_are_no_settings() {
        let of_service = [
            "TOLLGATE_SERVICE_HOST",
            "TOLLGATE_SERVICE_PORT",
            "TOLLGATE_SERVICE_PORT_HTTP",
            "TOLLGATE_PORT",
            "TOLLGATE_PORT_8080_TCP",
            "TOLLGATE_PORT_8080_TCP_PROTO",
            "TOLLGATE_PORT_8080_TCP_PORT",
            "TOLLGATE_PORT_8080_TCP_ADDR",
            "TOLLGATE_AGENT_SERVICE_HOST",
            "TOLLGATE_AGENT_PORT_8080_TCP_ADDR",
        ];
        assert_eq!(unknown(&of_service), []);
    }
}
