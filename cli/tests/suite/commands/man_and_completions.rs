//! `tollgate man` and `tollgate completions`: every command is there, and no value of a setting.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{file, finish, tollgate};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];
const SECRET: &str = "hunter2";

/// Returns the commands that the help of the whole program lists.
fn commands() -> Vec<String> {
    let help = finish(&mut tollgate(&[])).out;
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let (list, _) = list.split_once("\n\n").unwrap();
    list.lines().map(|line| line.split_whitespace().next().unwrap().to_owned()).collect()
}

/// Returns words that Bash proposes for the last of these.
fn completed(words: &[&str]) -> BTreeSet<String> {
    let script = finish(&mut tollgate(&["completions", "bash"])).out;
    let path = file("completions.bash", &script);
    let line = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
    let ask = format!(
        "source {}; COMP_WORDS=({line}); COMP_CWORD={}; _tollgate tollgate '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\"",
        path.display(),
        words.len() - 1
    );
    let mut bash = Command::new("bash");
    let said = finish(bash.args(["--norc", "-c", &ask]).stdout(Stdio::piped()).stderr(Stdio::piped()));
    assert_eq!((said.exit, &*said.err), (0, ""));
    said.out.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_listed_values() {
    let all = completed(&["tollgate", ""]);
    for command in commands() {
        assert!(all.contains(&command), "{command}: {all:?}");
    }
    assert!(!all.contains("experiment"), "a hidden command is proposed");
    for (words, expected) in [
        (&["tollgate", "agg"][..], "aggregator"),
        (&["tollgate", "rules", "va"], "validate"),
        (&["tollgate", "agent", "--state"], "--state-dir"),
        (&["tollgate", "up", "--log-format", "js"], "json"),
        (&["tollgate", "completions", "fi"], "fish"),
    ] {
        assert_eq!(completed(words), BTreeSet::from([expected.to_owned()]), "{words:?}");
    }
}

#[test]
fn every_command_has_a_page() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man");
    let _ = fs::remove_dir_all(&folder);
    let written = finish(&mut tollgate(&["man", folder.to_str().unwrap()]));
    assert_eq!((written.exit, &*written.out), (0, ""), "{}", written.err);
    let page = |name: &str| fs::read_to_string(folder.join(format!("{name}.1"))).unwrap_or_else(|_| panic!("{name}"));
    for command in commands() {
        let text = page(&format!("tollgate-{command}"));
        let title = format!(".TH tollgate-{command} 1 \" \" \"tollgate {}\"", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&title) && text.contains(".SH SYNOPSIS\n"), "{text}");
    }
    for inner in ["rules-validate", "rules-publish", "regions-move"] {
        assert!(page(&format!("tollgate-{inner}")).contains(".SH NAME\n"));
    }
    assert!(!folder.join("tollgate-experiment.1").exists());
    let whole = page("tollgate");
    assert!(whole.contains(".SH \"EXIT STATUS\"\n") && whole.contains("\n  tollgate up "), "{whole}");
    assert!(page("tollgate-agent").contains("TOLLGATE_STATE_DIR"), "the page names variables");
}

#[test]
fn neither_holds_a_value_of_a_variable_or_of_the_settings_file() {
    let url = format!("redis://:{SECRET}@10.0.0.5");
    let path = file("secret.yaml", &format!("redis: {url}\nnode: {SECRET}\n"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("man-secret");
    let with_secrets = |args: &[&str]| {
        let variables = [("TOLLGATE_REDIS", &*url), ("TOLLGATE_CONFIG", path.to_str().unwrap())];
        let said = finish(tollgate(args).envs(variables).env("TOLLGATE_NODE", SECRET));
        assert_eq!(said.exit, 0, "{}", said.err);
        assert!(!said.out.contains(SECRET) && !said.err.contains(SECRET), "{args:?}");
    };
    with_secrets(&["man", folder.to_str().unwrap()]);
    for page in fs::read_dir(&folder).unwrap() {
        let text = fs::read_to_string(page.unwrap().path()).unwrap();
        assert!(!text.contains(SECRET), "{text}");
    }
    for shell in SHELLS {
        with_secrets(&["completions", shell]);
    }
}
