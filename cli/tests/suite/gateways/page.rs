//! Page of gateways: its configurations and commands, as a reader copies them.

use std::path::Path;
use std::process::Command;

use crate::support::finish;

const PAGE: &str = include_str!("../../../../docs/gateways.md");

/// Returns the blocks of a language under a heading, up to the next heading of its level.
pub(crate) fn blocks(heading: &str, language: &str) -> Vec<&'static str> {
    let (_, section) = PAGE.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no section {heading}"));
    let level = heading.split(' ').next().unwrap_or_default();
    let section = section.split(&format!("\n{level} ")).next().unwrap_or_default();
    let fence = format!("```{language}\n");
    section.split(&fence).skip(1).filter_map(|block| block.split("```").next()).collect()
}

/// Returns the block of a language under a heading that has this text.
pub(crate) fn block(heading: &str, language: &str, text: &str) -> &'static str {
    let found = blocks(heading, language).into_iter().find(|block| block.contains(text));
    found.unwrap_or_else(|| panic!("no block {language} with {text} in {heading}"))
}

/// Runs the commands under a heading that begin with this text, with other texts replaced. Returns their output.
pub(crate) fn run(heading: &str, beginning: &str, replaced: &[(&str, &str)]) -> String {
    let lines = blocks(heading, "sh").into_iter().flat_map(str::lines).filter(|line| line.starts_with(beginning));
    let commands: Vec<String> = lines
        .map(|line| replaced.iter().fold(line.to_owned(), |line, (text, other)| line.replace(text, other)))
        .collect();
    assert!(!commands.is_empty(), "no command {beginning} in {heading}");
    let mut shell = Command::new("sh");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace is above");
    let run = finish(shell.current_dir(folder).args(["-ec", &commands.join("\n")]));
    assert_eq!(run.exit, 0, "{commands:?}: {}{}", run.out, run.err);
    run.out + &run.err
}

/// Runs the command of a section that shows that the gateway works, at its port.
pub(crate) fn see_that_it_works(heading: &str, port: u16) {
    let shown = run(heading, "curl ", &[("localhost:10000", "localhost"), ("localhost", &format!("127.0.0.1:{port}"))]);
    assert!(shown.to_lowercase().contains("\nx-ratelimit-remaining: "), "{shown}");
}

/// Returns the line of the first agent in the configuration of a gateway, and the line below it for the second agent.
pub(crate) fn second_agent(gateway: &str) -> [&'static str; 2] {
    let row = PAGE.lines().find(|line| line.starts_with(&format!("| {gateway} | `")));
    let row = row.unwrap_or_else(|| panic!("no row {gateway} of a second agent"));
    let lines: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
    lines.try_into().unwrap_or_else(|_| panic!("{row}"))
}
