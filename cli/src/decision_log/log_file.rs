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
    /// True if the last write failed, perhaps in the middle of a line.
    is_torn: bool,
}

impl LogFile {
    /// Opens the file, or creates it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file, looked: Stopwatch::start(), is_torn: false })
    }

    /// Appends whole lines. After a failure, they begin on a line of their own.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.looked.elapsed() >= LOOK_INTERVAL {
            self.looked = Stopwatch::start();
            self.follow()?;
        }
        if self.is_torn {
            self.file.write_all(b"\n")?;
        }
        let written = self.file.write_all(lines);
        self.is_torn = written.is_err();
        written
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

    #[test]
    fn lines_after_a_torn_one_begin_on_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        std::fs::write(&path, "{\"half").expect("a file");
        let mut log = LogFile { is_torn: true, ..LogFile::open(&path).expect("a file") };
        (0..2).for_each(|_| log.write(b"{}\n").expect("room"));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "{\"half\n{}\n{}\n");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut log = LogFile::open(Path::new("/dev/full")).expect("a device");
        assert!(log.write(b"1\n").is_err() && log.is_torn);
    }
}
