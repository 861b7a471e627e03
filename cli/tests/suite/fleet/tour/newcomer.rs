//! A newcomer: a user without rights, in a folder with the files of the project that a reader needs, and the binary.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tollgate_servers::{Finished, finish};

use super::document::Block;

/// Files of the project that the documents name.
const FILES: [&str; 1] = ["rules.yaml"];
/// Beginnings of the commands that the tour leaves out, and the reason.
const LEFT_OUT: [(&str, &str); 5] = [
    ("scripts/", "it would run these tests, and the package has tests of its own"),
    ("sudo ", "it installs the package"),
    ("docker ", "the containers have tests of their own"),
    ("cargo build --release --features", "the binary of the tests has these features"),
    ("target/release/tollgate agent --limit", "its exports have tests of their own"),
];
/// User and group of `nobody`, which stands for a user without rights if the tests run as root.
const NOBODY: &str = "65534";

/// Newcomer with a folder, which ends with it.
pub(super) struct Newcomer {
    folder: PathBuf,
    /// Texts that a reader replaces by names of the own files and servers.
    replaced: Vec<(&'static str, String)>,
    /// Lines of the shell that hold for all later ones.
    exports: String,
    running: Vec<Child>,
}

impl Newcomer {
    pub(super) fn arrive(replaced: &[(&'static str, String)]) -> Self {
        let folder = std::env::temp_dir().join(format!("tollgate-tour-{}", std::process::id()));
        let programs = folder.join("target/release");
        fs::create_dir_all(&programs).expect("a folder");
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in FILES {
            fs::copy(root.join(name), folder.join(name)).expect(name);
        }
        let binary = env!("CARGO_BIN_EXE_tollgate");
        fs::hard_link(binary, programs.join("tollgate"))
            .or_else(|_| fs::copy(binary, programs.join("tollgate")).map(|_| ()))
            .expect("the binary");
        let newcomer = Self { folder, replaced: replaced.to_vec(), exports: String::new(), running: Vec::new() };
        // The binary of the tests stands for the one that `cargo` would build.
        let cargo = "#!/bin/sh\n[ \"$1\" != run ] || { while [ \"$1\" != -- ]; do shift; done; shift; exec target/release/tollgate \"$@\"; }\n";
        newcomer.write("cargo", cargo);
        fs::set_permissions(newcomer.folder.join("cargo"), fs::Permissions::from_mode(0o755)).expect("a program");
        if is_root() {
            finish_well(Command::new("chown").args([NOBODY, "."]).current_dir(&newcomer.folder));
        }
        newcomer
    }

    /// Writes a file that a reader has.
    pub(super) fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.join(name), text).expect(name);
    }

    /// Runs the commands of a block. Returns those that have ended, each with its comment, its text and its output.
    pub(super) fn run(&mut self, block: &Block) -> Vec<(String, String, Finished)> {
        if block.ends_what_runs() {
            self.end_what_runs();
        }
        if block.commands.iter().any(|command| command.text.starts_with("docker ")) {
            return Vec::new(); // the other commands of the block ask the containers
        }
        let is_left_out = |text: &str| LEFT_OUT.iter().any(|(begin, _)| text.starts_with(begin));
        let mut ended = Vec::new();
        for command in block.commands.iter().filter(|command| !is_left_out(&command.text)) {
            let text = self.replaced.iter().fold(command.text.clone(), |text, (of, by)| text.replace(of, by));
            if text.contains("export ") || text.starts_with("unset ") {
                self.exports.extend([&*text, "\n"]);
            }
            if ["tollgate up ", "tollgate agent", "tollgate aggregator"].iter().any(|begin| text.starts_with(begin)) {
                self.start(&text);
            } else {
                ended.push((command.comment.clone(), text.clone(), finish(&mut self.shell(&text))));
            }
        }
        ended
    }

    /// Starts a command that runs until it is ended, in a terminal of its own, and waits until it listens.
    fn start(&mut self, text: &str) {
        let program = text.split('#').next().unwrap_or_default();
        let mut child = self.shell(&format!("exec {program}")).stdout(Stdio::piped()).spawn().expect("a shell");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("UTF-8");
        assert!(line.starts_with("listening on "), "`{text}` said {line:?}, and: {:?}", child.wait());
        self.running.push(child);
    }

    /// Presses Ctrl-C in each terminal.
    pub(super) fn end_what_runs(&mut self) {
        for child in &self.running {
            finish_well(Command::new("kill").args(["-INT", &child.id().to_string()]));
        }
        for mut child in self.running.drain(..) {
            let status = child.wait().expect("it ends");
            assert!(status.success(), "after Ctrl-C: {status}");
        }
    }

    /// Returns a shell of the newcomer that runs a command.
    fn shell(&self, text: &str) -> Command {
        let mut command = if is_root() { Command::new("setpriv") } else { Command::new("env") };
        if is_root() {
            command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "env"]);
        }
        let path = format!("PATH={}:/usr/local/bin:/usr/bin:/bin", self.folder.display());
        let home = format!("HOME={}", self.folder.display());
        command.args(["-i", &path, &home, "sh", "-c", &format!("{}{text}", self.exports)]);
        command.current_dir(&self.folder).stdin(Stdio::null()).process_group(0);
        command
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn finish_well(command: &mut Command) {
    let Finished { exit, err, .. } = finish(command);
    assert_eq!(exit, 0, "{command:?}: {err}");
}
