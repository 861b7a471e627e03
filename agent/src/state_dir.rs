//! What an agent knows across restarts (`--state-dir`): the last good rules and the size of the fleet, so that it can start
//! when nothing can be reached. Counts are not here: they live in the store and in the log.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::Generation;

const FILE: &str = "agent.json";
const VERSION: u32 = 1;

/// What is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) rules: Option<(Generation, Published)>,
    pub(crate) agents: Option<NonZeroU32>,
}

/// A folder of an agent's own.
pub(crate) struct StateDir {
    folder: PathBuf,
    saved: Mutex<Saved>,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u32,
    agents: Option<NonZeroU32>,
    rules: Option<WrittenRules>,
}

#[derive(Serialize, Deserialize)]
struct WrittenRules {
    generation: Generation,
    name: String,
    text: String,
}

impl StateDir {
    /// Opens a folder, made if need be, and reads what was saved there. A file that cannot be read is told of, and taken
    /// for none: it only helps.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be made.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(FILE);
        let saved = match fs::read(&path) {
            Ok(bytes) => Self::read(&bytes).unwrap_or_else(|why| {
                tracing::warn!(file = %path.display(), "what was saved cannot be used and will be overwritten: {why}");
                Saved::default()
            }),
            Err(_) => Saved::default(),
        };
        Ok(Self { folder: folder.to_owned(), saved: Mutex::new(saved) })
    }

    /// What is saved.
    pub(crate) fn saved(&self) -> Saved {
        self.saved.lock().clone()
    }

    /// Changes what is saved; written at once when it differs.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Saved)) {
        let mut saved = self.saved.lock();
        let before = saved.clone();
        change(&mut saved);
        if *saved != before
            && let Err(error) = self.write(&saved)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "the state cannot be saved; check the folder and its permissions");
        }
    }

    fn read(bytes: &[u8]) -> Result<Saved, String> {
        let written: Written = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if written.version != VERSION {
            return Err(format!("it is of version {}, this agent writes {VERSION}", written.version));
        }
        let rules = written.rules.map(|WrittenRules { generation, name, text }| (generation, Published { name, text }));
        Ok(Saved { rules, agents: written.agents })
    }

    /// A file appears whole or not at all.
    fn write(&self, saved: &Saved) -> io::Result<()> {
        let rules =
            saved.rules.clone().map(|(generation, Published { name, text })| WrittenRules { generation, name, text });
        let written = Written { version: VERSION, agents: saved.agents, rules };
        let draft = self.folder.join(format!("{FILE}.draft"));
        fs::write(&draft, serde_json::to_vec_pretty(&written).map_err(io::Error::other)?)?;
        fs::rename(draft, self.folder.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_is_there_after_a_restart_and_a_broken_file_is_none() {
        let folder = std::env::temp_dir().join(format!("tollgate-state-{}", std::process::id()));
        let published = Published { name: "r.yaml".into(), text: "rules: []".into() };
        let saved = Saved { rules: Some((7, published)), agents: NonZeroU32::new(3) };
        StateDir::open(&folder).unwrap().change(|state| *state = saved.clone());
        assert_eq!(StateDir::open(&folder).unwrap().saved(), saved);
        fs::write(folder.join(FILE), "{").unwrap();
        assert_eq!(StateDir::open(&folder).unwrap().saved(), Saved::default());
        fs::remove_dir_all(folder).unwrap();
    }
}
