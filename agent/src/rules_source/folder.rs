//! The files of a directory with rules: `*.yaml` and `*.yml` in the order of their names.
//!
//! A mounted config map of Kubernetes has links beside folders whose names begin with two dots; the links are read.

use std::fs;
use std::path::{Path, PathBuf};

use tollgate_core::rules::problem::Problem;
use tollgate_files::FileError;

/// Files of a directory with rules.
pub(super) struct RulesFolder {
    pub(super) files: Vec<PathBuf>,
    /// Warnings of files that are not read.
    pub(super) warnings: Vec<Problem>,
}

impl RulesFolder {
    /// Lists the files of a directory. Any other path is a file itself.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(super) fn list(folder: &Path) -> Result<Self, FileError> {
        if !folder.is_dir() {
            return Ok(Self { files: vec![folder.to_owned()], warnings: Vec::new() });
        }
        let unreadable = |error| FileError::unreadable(folder, &error);
        let entries = fs::read_dir(folder).map_err(unreadable)?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, _>>().map_err(unreadable)?;
        paths.sort();
        let mut listed = Self { files: Vec::new(), warnings: Vec::new() };
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            let why = match name.as_bytes() {
                [b'.', b'.', ..] => continue,
                [b'.', ..] => "is hidden by the `.` before its name",
                _ if path.is_dir() => "is a directory",
                _ if !is_yaml => "does not end in .yaml or .yml",
                _ => {
                    listed.files.push(path);
                    continue;
                }
            };
            let text = format!("{why} and is not read; rename or move it if it holds rules");
            listed.warnings.push(Problem { place: path.display().to_string(), text });
        }
        Ok(listed)
    }
}
