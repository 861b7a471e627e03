//! Reader of the Dockerfile: its stages, base images and copied sources.

use std::path::Path;

/// Path of the Dockerfile in the workspace, which is its build context.
pub(crate) const DOCKERFILE: &str = "deploy/Dockerfile";

pub(crate) struct Dockerfile {
    /// Instructions, each on one line.
    stages: Vec<Vec<String>>,
}

impl Dockerfile {
    pub(crate) fn read(root: &Path) -> Self {
        let text = std::fs::read_to_string(root.join(DOCKERFILE)).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).map(str::trim_end).collect();
        let mut stages: Vec<Vec<String>> = Vec::new();
        for line in lines.join("\n").replace("\\\n", " ").lines().filter(|line| !line.is_empty()) {
            if line.starts_with("FROM ") {
                stages.push(Vec::new());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            stages.last_mut().expect("FROM comes first").push(words.join(" "));
        }
        Self { stages }
    }

    pub(crate) fn stages(&self) -> &[Vec<String>] {
        &self.stages
    }

    pub(crate) fn bases(&self) -> impl Iterator<Item = &str> {
        self.stages.iter().map(|stage| stage[0].split(' ').nth(1).expect("an image"))
    }

    /// Sources that are copied from the build context.
    pub(crate) fn copied(&self) -> Vec<&str> {
        let copies = self.stages.iter().flatten().filter_map(|line| line.strip_prefix("COPY "));
        let from_here = copies.filter(|copy| !copy.starts_with("--from="));
        from_here.flat_map(|copy| copy.rsplit_once(' ').expect("a target").0.split(' ')).collect()
    }
}

/// Argument of the last instruction with this name.
pub(crate) fn last<'s>(stage: &'s [String], instruction: &str) -> &'s str {
    let argument = stage.iter().rev().find_map(|line| line.strip_prefix(instruction));
    argument.unwrap_or_else(|| panic!("no {instruction}")).trim_start()
}
