//! Dead letters: records of `calls` and `presence` that were passed over, kept with their offset and reason.
//!
//! The bytes go to files, if there is a folder for them; the newest ones are listed at `/dead-letters`. The engine decides
//! which of them are logged.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;

use tollgate_aggregator_engine::worker::DeadLetter;
use tollgate_core::one_line::excerpt;

/// Maximum number of dead letters that are listed; the oldest is dropped first.
const LISTED_LEN_MAX: usize = 100;
/// Maximum number of files that one life of an aggregator writes.
const FILES_MAX: u64 = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct KeptDeadLetter {
    pub(crate) letter: DeadLetter,
    /// The length of the record, in bytes.
    pub(crate) len: usize,
    /// The file that holds its bytes.
    pub(crate) file: Option<PathBuf>,
}

pub(crate) struct DeadLetters {
    folder: Option<PathBuf>,
    files: u64,
    /// The listed ones, the oldest first.
    pub(crate) newest: VecDeque<KeptDeadLetter>,
}

impl DeadLetters {
    /// Returns an empty list; bytes go to files in this folder, if there is one.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, files: 0, newest: VecDeque::new() }
    }

    /// Keeps a dead letter, and logs it if `unlogged` is given: the number of those before it that were not logged.
    pub(crate) fn keep(&mut self, letter: DeadLetter, unlogged: Option<u64>, payload: &[u8]) {
        let file = self.write(&letter, payload);
        if let Some(unlogged) = unlogged {
            let DeadLetter { topic, partition, offset, reason, .. } = &letter;
            let file = file.as_ref().map(|file| file.display().to_string());
            tracing::error!(
                topic = topic.as_str(),
                partition,
                offset,
                reason = %excerpt(reason),
                file,
                unlogged,
                "a record is a dead letter and changes nothing; find the producer that writes such records, and let only Tollgate write to this topic"
            );
        }
        self.newest.push_back(KeptDeadLetter { letter, len: payload.len(), file });
        if self.newest.len() > LISTED_LEN_MAX {
            self.newest.pop_front();
        }
    }

    fn write(&mut self, letter: &DeadLetter, payload: &[u8]) -> Option<PathBuf> {
        let folder = self.folder.as_ref().filter(|_| self.files < FILES_MAX)?;
        let path = folder.join(format!("{}-{}-{}.bin", letter.topic.as_str(), letter.partition, letter.offset));
        if path.exists() {
            return Some(path);
        }
        self.files += 1;
        let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, payload));
        match written {
            Ok(()) => Some(path),
            Err(error) => {
                tracing::warn!(%error, folder = %folder.display(), "a dead letter cannot be written to a file; its record is still in the log");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::clock::Timestamp;
    use tollgate_core::messages::Topic;

    use super::*;

    #[test]
    fn the_newest_are_listed_and_their_bytes_are_in_files() {
        let folder = std::env::temp_dir().join(format!("tollgate-dead-letters-{}", std::process::id()));
        let mut dead_letters = DeadLetters::new(Some(folder.clone()));
        for offset in 0..=LISTED_LEN_MAX as u64 {
            let (topic, reason) = (Topic::Calls, "torn".into());
            let letter = DeadLetter { topic, partition: 3, offset, appended: Timestamp::default(), reason };
            dead_letters.keep(letter, None, &[7; 5]);
        }
        let listed: Vec<_> = dead_letters.newest.iter().map(|kept| (kept.letter.offset, kept.len)).collect();
        assert_eq!((listed.len(), listed[0]), (LISTED_LEN_MAX, (1, 5)), "the oldest was dropped");
        assert_eq!(fs::read(folder.join("calls-3-0.bin")).expect("it was written"), [7; 5]);
        fs::remove_dir_all(folder).expect("it is there");
    }
}
