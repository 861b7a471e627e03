//! Records that cannot be read: told of, kept aside with their place in the log, and passed over.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::path::PathBuf;

use tollgate_bus::BusRecord;
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::signals::Offset;
use tollgate_wire::WireError;

/// How many are remembered; of more, the oldest are forgotten.
const ASIDE_LEN_MAX: usize = 100;
/// How many files are written in one life; further records are only told of.
const FILES_MAX: u64 = 1_000;
/// How often a partition is told of at most, in ms.
const TELL_MS: u64 = 60_000;

/// A record that was set aside.
#[derive(Clone, Debug)]
pub struct Aside {
    /// Of which partition of `calls`.
    pub partition: Partition,
    /// Its place there.
    pub offset: Offset,
    /// When it was appended.
    pub appended: Timestamp,
    /// How long it is, in bytes.
    pub len: usize,
    /// Why it cannot be read.
    pub reason: String,
    /// Where its bytes are.
    pub file: Option<PathBuf>,
}

pub(super) struct Asides {
    folder: Option<PathBuf>,
    files: u64,
    newest: VecDeque<Aside>,
    /// When each partition was told of, and how many records since were not.
    told: HashMap<Partition, (Timestamp, u64)>,
}

impl Asides {
    /// Bytes go to files in this folder, if there is one.
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, files: 0, newest: VecDeque::new(), told: HashMap::new() }
    }

    pub(super) fn newest(&self) -> impl Iterator<Item = &Aside> {
        self.newest.iter()
    }

    pub(super) fn set_aside(&mut self, now: Timestamp, record: &BusRecord, error: &WireError) {
        let file = self.write(record);
        let BusRecord { partition, offset, appended, .. } = *record;
        let (told_at, untold) = self.told.get(&partition).copied().unwrap_or_default();
        if now.ms_since(told_at) >= TELL_MS {
            let file = file.as_ref().map(|file| file.display().to_string());
            tracing::error!(
                topic = "calls", partition, offset, %error, file, untold,
                "a record cannot be read; it is set aside and passed over, counting goes on; find out who writes to this topic"
            );
            self.told.insert(partition, (now, 0));
        } else {
            self.told.insert(partition, (told_at, untold + 1));
        }
        let aside = Aside { partition, offset, appended, len: record.payload.len(), reason: error.to_string(), file };
        self.newest.push_back(aside);
        if self.newest.len() > ASIDE_LEN_MAX {
            self.newest.pop_front();
        }
    }

    fn write(&mut self, record: &BusRecord) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| self.files < FILES_MAX)?;
        let path = folder.join(format!("calls-{}-{}.bin", record.partition, record.offset));
        if path.exists() {
            return Some(path);
        }
        self.files += 1;
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, &record.payload));
        match written {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "a record that was set aside cannot be written to a file; it is still in the log");
                None
            }
        }
    }
}
