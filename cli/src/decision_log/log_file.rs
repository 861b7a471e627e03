//! A file to which lines are appended, and which another program may move away.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tollgate_core::clock::Stopwatch;

/// Interval at which a moved file is noticed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A log file. If it is moved or deleted, the next lines create it again.
pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    looked: Stopwatch,
}

impl LogFile {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, looked: Stopwatch::start() })
    }

    /// Appends whole lines.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Stopwatch::start();
            self.follow()?;
        }
        self.file.write_all(lines)
    }

    /// Opens the path again if it is no longer this file.
    fn follow(&mut self) -> io::Result<()> {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let known = id(self.file.metadata()?);
        if std::fs::metadata(&self.path).ok().map(id) != Some(known) {
            *self = Self::open(&self.path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_moved_is_created_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, moved] = ["log", "log.1"].map(|name| folder.path().join(name));
        let mut log = LogFile::open(&path).expect("a file");
        log.write(b"1\n").expect("room");
        std::fs::rename(&path, &moved).expect("it is moved");
        log.write(b"2\n").expect("room");
        log.follow().expect("a new file");
        log.write(b"3\n").expect("room");
        let read = |path: &Path| std::fs::read_to_string(path).expect("text");
        assert_eq!((read(&moved), read(&path)), ("1\n2\n".to_owned(), "3\n".to_owned()));
    }
}
