//! Rules from a directory with a configuration of envoyproxy/ratelimit. Its files are read in the order of their names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;
use tollgate_core::rules::problem::Problem;
use tollgate_files::{FileError, read_text};
use tollgate_rules::FILE_LEN_MAX;
use tollgate_rules::import::{EnvoySettings, Foreign, Imported, from_envoy};

use super::error::RulesFileError;

/// Directory with a configuration.
pub(super) struct EnvoyFolder {
    /// Names and texts of its files.
    pub(super) files: Vec<(String, String)>,
    /// Warnings of files that are not read.
    warnings: Vec<Problem>,
}

/// Reads the rules of a configuration; their generation is `now` in ms.
///
/// # Errors
/// Returns an error if the directory cannot be read or a setting cannot be enforced; each problem has its file and
/// line.
pub(super) fn read_envoy(folder: &Path, settings: &EnvoySettings, now: Timestamp) -> Result<RuleSet, RulesFileError> {
    let imported = import_envoy(folder, settings)?;
    let origin = folder.display().to_string();
    let mut set = tollgate_rules::from_yaml(&format!("{origin} (imported)"), &imported.text, now.as_ms())?;
    set.origin = origin.into();
    set.warnings = imported.warnings;
    Ok(set)
}

/// Reads a configuration and converts it to the text of a Tollgate rules file.
///
/// # Errors
/// Returns an error if the directory cannot be read or a setting cannot be enforced; each problem has its file and
/// line.
pub fn import_envoy(folder: &Path, settings: &EnvoySettings) -> Result<Imported, RulesFileError> {
    let EnvoyFolder { files, mut warnings } = read_folder(folder)?;
    if files.is_empty() {
        let why = "there is no file in it; specify the directory that contains the configuration".to_owned();
        let hidden = warnings.iter().map(ToString::to_string);
        let why = std::iter::once(why).chain(hidden).collect::<Vec<_>>().join("\n");
        return Err(FileError::new(folder, why).into());
    }
    let foreign: Vec<Foreign<'_>> = files.iter().map(|(name, text)| Foreign { name, text }).collect();
    let mut imported = from_envoy(&foreign, settings)?;
    warnings.append(&mut imported.warnings);
    Ok(Imported { warnings, ..imported })
}

/// Adds the files below a path, whatever their names and depth, and apart from them those that are hidden. envoyproxy/ratelimit
/// ignores the latter if `RUNTIME_IGNOREDOTFILES` is set, as its deployments on Kubernetes do: names with two dots are those of
/// a mounted config map, whose files have links beside them.
fn add_paths(path: &Path, paths: &mut Vec<PathBuf>, hidden: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        paths.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match entry.file_name().as_encoded_bytes() {
            [b'.', b'.', ..] => {}
            [b'.', ..] => hidden.push(entry.path()),
            _ => add_paths(&entry.path(), paths, hidden)?,
        }
    }
    Ok(())
}

/// Reads a configuration's files, in the order of their names.
pub(super) fn read_folder(folder: &Path) -> Result<EnvoyFolder, FileError> {
    let (mut paths, mut hidden) = (Vec::new(), Vec::new());
    add_paths(folder, &mut paths, &mut hidden).map_err(|error| FileError::unreadable(folder, &error))?;
    paths.sort();
    hidden.sort();
    let named = |path: PathBuf| Ok((path.display().to_string(), read_text(&path, FILE_LEN_MAX)?));
    let warning = |path: PathBuf| Problem {
        place: path.display().to_string(),
        text: "is hidden by the `.` before its name and is not read; rename it if it belongs to the configuration"
            .to_owned(),
    };
    Ok(EnvoyFolder {
        files: paths.into_iter().map(named).collect::<Result<_, FileError>>()?,
        warnings: hidden.into_iter().map(warning).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: &str = "domain: d\ndescriptors: [{ key: k, rate_limit: { unit: hour, requests_per_unit: 1 } }]\n";

    /// Returns a new folder with these files.
    fn folder(name: &str, files: &[&str]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("tollgate-envoy-{name}-{}", std::process::id()));
        for file in files {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, LIMIT.replace("domain: d", &format!("domain: {}", file.len()))).expect("a file");
        }
        folder
    }

    /// A file that is not read is named. Mounted config maps have links of two dots, whose targets are read.
    #[test]
    fn each_hidden_file_is_named() {
        let files = ["deep/er/one", "..data/two.yaml", ".hidden.yaml", "deep/.git/config", "deep/.off"];
        let folder = folder("hidden", &files);
        let imported = import_envoy(&folder, &EnvoySettings::default());
        fs::remove_dir_all(&folder).expect("a folder");
        let imported = imported.expect("rules");
        let places: Vec<&str> = imported.warnings.iter().map(|warning| &*warning.place).collect();
        let expected = [".hidden.yaml", "deep/.git", "deep/.off"].map(|name| folder.join(name).display().to_string());
        assert_eq!(places, expected);
        assert!(imported.warnings[0].text.ends_with("is not read; rename it if it belongs to the configuration"));
        assert_eq!(imported.text.matches("quota:").count(), 1, "{}", imported.text);
    }

    #[test]
    fn a_folder_with_hidden_files_alone_is_refused_with_their_names() {
        let folder = folder("all-hidden", &[".one.yaml"]);
        let refused = import_envoy(&folder, &EnvoySettings::default()).map(|imported| imported.text);
        fs::remove_dir_all(&folder).expect("a folder");
        let refused = refused.expect_err("no rules").to_string();
        assert!(refused.contains("there is no file in it;") && refused.contains(".one.yaml: is hidden"), "{refused}");
    }
}
