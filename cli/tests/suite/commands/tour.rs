//! The tour of the README: each command is run as printed there, and decided by the rule that it names.

use std::path::Path;
use std::process::Command;

use crate::support::Up;

/// Returns the commands of the tour, each with the rule that its comment names.
fn commands(readme: &str) -> Vec<(&str, &str)> {
    let (_, tour) = readme.split_once("### Start a limiter").expect("a tour");
    assert!(
        tour.trim_start().starts_with("```sh\ntollgate up --rules rules.yaml\n```"),
        "the tour starts this limiter"
    );
    let (_, block) = tour.split_once("In another terminal:\n\n```sh\n").expect("commands");
    let lines: Vec<&str> = block.split_once("```").expect("an end").0.lines().collect();
    lines.chunks(2).map(|pair| (rule_of(pair[0]), pair[1])).collect()
}

/// Returns the last rule that a comment names.
fn rule_of(comment: &str) -> &str {
    let (_, rule) = comment.strip_prefix("# ").and_then(|text| text.rsplit_once("rule ")).expect("a rule in a comment");
    rule.trim_end_matches('.')
}

#[test]
fn every_command_of_the_tour_hits_the_rule_that_it_names() {
    let readme = std::fs::read_to_string("../README.md").unwrap();
    let up = Up::start(&["--rules", "../rules.yaml"]);
    let folder = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let commands = commands(&readme);
    for (rule, command) in &commands {
        let line = command.replace("http://127.0.0.1:8080", &up.url());
        let run = Command::new("sh").args(["-c", &line]).env("PATH", &path).env("TOLLGATE_AGENT", up.url()).output();
        let out = String::from_utf8(run.expect("a shell").stdout).unwrap();
        let named = [format!("\"rule\":\"{rule}\""), format!("\nrule         {rule}\n")];
        assert!(named.iter().any(|named| out.contains(named)), "{command}: {out}");
        assert!(out.contains("200 OK") || out.contains("may pass"), "{command}: {out}");
    }
    let rules: Vec<&str> = commands.iter().map(|(rule, _)| *rule).collect();
    assert_eq!(rules, ["per-key", "search", "search", "search", "login"]);
}
