//! `tollgate.yaml`: the settings of one process, with one value or a list per key.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::ArgAction;
use tollgate_command::exit::Usage;
use tollgate_core::rules::problem::Problems;
use tollgate_files::read_text;
use tollgate_rules::yaml::{YamlReader, line_of};
use tollgate_rules::{FILE_LEN_MAX, hint};

#[derive(Clone, Debug)]
pub(crate) struct ConfigFile {
    pub(crate) path: PathBuf,
    pub(crate) settings: BTreeMap<String, FileSetting>,
}

#[derive(Clone, Debug)]
pub(crate) struct FileSetting {
    pub(crate) values: Vec<String>,
    pub(crate) line: usize,
}

impl ConfigFile {
    /// Reads a file that may contain these keys. The actions of their flags tell which of them take several values.
    pub(crate) fn read(path: PathBuf, keys: &BTreeMap<String, ArgAction>) -> anyhow::Result<Self> {
        let text = read_text(&path, FILE_LEN_MAX)
            .map_err(|error| Usage(format!("{error}; --config or TOLLGATE_CONFIG names it")))?;
        let name = path.display().to_string();
        let mut reader = YamlReader::new(&name);
        let mut settings = BTreeMap::new();
        if let Some(document) = reader.document(&text) {
            for (written, node) in reader.mapping(&document, "the configuration").iter() {
                let (key, line) = (written.replace('-', "_"), line_of(node));
                let Some(action) = keys.get(&key) else {
                    let hint = hint(&key, keys.keys().map(String::as_str));
                    reader.refuse(line, format!("unknown key `{written}`{hint}"));
                    continue;
                };
                let what = format!("`{written}`");
                let items = if matches!(action, ArgAction::Append) { reader.items(node, &what) } else { vec![node] };
                let values = items.into_iter().filter_map(|item| reader.text(item, &what));
                let values = values.map(str::to_owned).collect();
                settings.insert(key, FileSetting { values, line });
            }
        }
        if reader.problems.is_empty() {
            Ok(Self { path, settings })
        } else {
            Err(Problems { problems: reader.problems }.into())
        }
    }
}
