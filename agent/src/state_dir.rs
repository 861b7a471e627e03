//! State of an agent that survives restarts (`--state-dir`): the last valid rules, the agents of the fleet and the emergency
//! switch. With it,
//! an agent can start while neither store nor bus is available. Counts are not part of it; they are in the store and in
//! the log.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::rules::Published;
use tollgate_core::rules::{Generation, Quota};
use tollgate_files::{FileError, read_file};

const FILE: &str = "agent.json";
const VERSION: u32 = 1;
/// Maximum length of the state file in bytes: the longest rules, with each character escaped.
const FILE_LEN_MAX: usize = 32 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an object with `other_agents`")]
pub(crate) struct SavedState {
    /// Ids of the other agents of the fleet. The own id is left out, because the next life may have another one.
    pub(crate) other_agents: Option<Vec<String>>,
    pub(crate) rules: Option<SavedRules>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) emergency: Option<SavedEmergency>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an object with `generation`, `name` and `text`")]
pub(crate) struct SavedRules {
    pub(crate) generation: Generation,
    #[serde(flatten, with = "PublishedFields")]
    pub(crate) published: Published,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(expecting = "an object with `changed_at_ms` and `quota`")]
pub(crate) struct SavedEmergency {
    changed_at_ms: u64,
    /// Units and window of the quota; none if the switch is off.
    quota: Option<(u64, u64)>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Published", expecting = "an object with `name` and `text`")]
struct PublishedFields {
    name: String,
    text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    overrides: String,
    #[serde(skip)]
    author: String,
    #[serde(skip)]
    comment: String,
    #[serde(skip)]
    replaces: Option<Generation>,
}

pub(crate) struct StateDir {
    folder: PathBuf,
    saved: Mutex<SavedState>,
}

#[derive(Serialize, Deserialize)]
#[serde(expecting = "an object with `version`")]
struct StateFile<S> {
    version: u32,
    #[serde(flatten)]
    state: S,
}

impl From<EmergencySwitch> for SavedEmergency {
    fn from(switch: EmergencySwitch) -> Self {
        let quota = switch.quota.map(|quota| (quota.units(), quota.width_ms()));
        Self { changed_at_ms: switch.changed_at.as_ms(), quota }
    }
}

impl SavedEmergency {
    /// Returns the change; nothing if its quota is not valid.
    pub(crate) fn switch(self) -> Option<EmergencySwitch> {
        let quota = self.quota.map(|(units, width_ms)| Quota::new(units, width_ms)).transpose().ok()?;
        Some(EmergencySwitch { quota, changed_at: Timestamp::from_ms(self.changed_at_ms) })
    }
}

impl StateDir {
    /// Opens a directory, creating it if necessary, and reads the saved state. An unreadable state file is logged and
    /// ignored.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be created.
    pub(crate) fn open(folder: &Path) -> Result<Self, FileError> {
        fs::create_dir_all(folder)
            .map_err(|error| FileError::new(folder, format!("{error}; give a folder that can be written")))?;
        let path = folder.join(FILE);
        let warn = |why: &String| {
            tracing::warn!(file = %path.display(), "the saved state is unreadable and will be overwritten: {why}");
        };
        let saved = path.exists().then(|| Self::read(&path).inspect_err(warn).ok()).flatten().unwrap_or_default();
        Ok(Self { folder: folder.to_owned(), saved: Mutex::new(saved) })
    }

    pub(crate) fn saved(&self) -> SavedState {
        self.saved.lock().clone()
    }

    /// Changes the saved state, and writes it if it differs.
    pub(crate) fn change(&self, change: impl FnOnce(&mut SavedState)) {
        let mut saved = self.saved.lock();
        let before = saved.clone();
        change(&mut saved);
        if *saved != before
            && let Err(error) = self.write(&saved)
        {
            tracing::warn!(folder = %self.folder.display(), %error, "the state cannot be saved; check the directory and its permissions");
        }
    }

    fn read(path: &Path) -> Result<SavedState, String> {
        let bytes = read_file(path, FILE_LEN_MAX).map_err(|error| error.to_string())?;
        let file: StateFile<SavedState> = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
        if file.version != VERSION {
            return Err(format!("its version is {}, this agent supports {VERSION}", file.version));
        }
        Ok(file.state)
    }

    /// Writes the file under another name first and then renames it, so that it is always complete.
    fn write(&self, state: &SavedState) -> io::Result<()> {
        let draft = self.folder.join(format!("{FILE}.draft"));
        let _ = fs::remove_file(&draft);
        // The rules may name callers by their keys.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(&serde_json::to_vec_pretty(&StateFile { version: VERSION, state })?)?;
        drop(file);
        fs::rename(draft, self.folder.join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_state_survives_a_restart_and_a_broken_file_is_ignored() {
        let folder = std::env::temp_dir().join(format!("tollgate-state-{}", std::process::id()));
        let published = Published::new("r.yaml", "rules: []");
        let saved = SavedState {
            rules: Some(SavedRules { generation: 7, published }),
            other_agents: Some(vec!["a".into(), "b".into()]),
            emergency: None,
        };
        StateDir::open(&folder).unwrap().change(|state| *state = saved.clone());
        assert_eq!(StateDir::open(&folder).unwrap().saved(), saved);
        let file: serde_json::Value = serde_json::from_slice(&fs::read(folder.join(FILE)).unwrap()).unwrap();
        assert_eq!(fs::metadata(folder.join(FILE)).unwrap().permissions().mode() & 0o777, 0o600);
        let rules = serde_json::json!({ "generation": 7, "name": "r.yaml", "text": "rules: []" });
        assert_eq!(file, serde_json::json!({ "version": 1, "other_agents": ["a", "b"], "rules": rules }));
        fs::write(folder.join(FILE), "{").unwrap();
        assert_eq!(StateDir::open(&folder).unwrap().saved(), SavedState::default());
        for text in ["[]", "7", "{\"version\": 1, \"rules\": 7}", "{\"version\": 1, \"emergency\": \"on\"}"] {
            fs::write(folder.join(FILE), text).unwrap();
            let error = StateDir::read(&folder.join(FILE)).unwrap_err();
            assert!(error.contains("expected an object with `") && !error.contains("struct"), "{text}: {error}");
        }
        fs::remove_file(folder.join(FILE)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.join(FILE)).unwrap();
        assert_eq!(
            StateDir::open(&folder).unwrap().saved(),
            SavedState::default(),
            "an endless file is read up to its cap"
        );
        fs::remove_dir_all(folder).unwrap();
    }
}
