//! Files that a user names: rules, settings, keys, certificates, scenarios. Every reader of one is here.
//!
//! A path may name a device without end, or a pipe that nobody writes to. So each file has a cap that holds while it is read,
//! and a pipe has a time in which its writer must send more or end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// Maximum time in seconds for which the writer of a pipe may send nothing.
const WRITER_WAIT_S: i64 = 2;

/// Error of a file or a folder, with its path, cause and remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}{}{remedy}", path.display(), if remedy.is_empty() { "" } else { "; " })]
pub struct FileError {
    path: PathBuf,
    why: String,
    remedy: &'static str,
}

impl FileError {
    /// Returns the error of this path. The cause ends with the remedy.
    #[must_use]
    pub fn new(path: &Path, why: impl Into<String>) -> Self {
        Self::with_remedy(path, why, "")
    }

    /// Returns the path with the cause, and the remedy, for texts that put something between them.
    #[must_use]
    pub fn parts(&self) -> (String, &'static str) {
        (format!("{}: {}", self.path.display(), self.why), self.remedy)
    }

    /// Returns the error of the system for this path.
    #[must_use]
    pub fn unreadable(path: &Path, error: &io::Error) -> Self {
        Self::with_remedy(path, error.to_string(), "check the path and its permissions")
    }

    fn with_remedy(path: &Path, why: impl Into<String>, remedy: &'static str) -> Self {
        Self { path: path.to_owned(), why: why.into(), remedy }
    }
}

/// Reads a file of at most `len_max` bytes. A pipe is read until its writer ends.
///
/// # Errors
/// If the file cannot be read, or is longer, or is a pipe whose writer sends nothing for 2 s. No more than one byte past the cap is
/// read.
pub fn read_file(path: &Path, len_max: usize) -> Result<Vec<u8>, FileError> {
    let mut file = open(path)?;
    let is_regular = is_regular(path, &file)?;
    let unreadable = |error: io::Error| FileError::unreadable(path, &error);
    let mut content = Vec::new();
    if is_regular {
        file.take(len_max as u64 + 1).read_to_end(&mut content).map_err(unreadable)?;
    } else {
        while content.len() <= len_max {
            await_writer(path, &file)?;
            let mut chunk = [0; 4096];
            let most = chunk.len().min(len_max + 1 - content.len());
            match file.read(&mut chunk[..most]) {
                Ok(0) => break,
                Ok(len) => content.extend_from_slice(&chunk[..len]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
    }
    if content.len() > len_max {
        return Err(FileError::with_remedy(
            path,
            format!("longer than the {len_max} bytes that are read"),
            "check the path",
        ));
    }
    Ok(content)
}

/// Reads a text of at most `len_max` bytes.
///
/// # Errors
/// As [`read_file`], and if the file is not UTF-8.
pub fn read_text(path: &Path, len_max: usize) -> Result<String, FileError> {
    text_of(path, read_file(path, len_max)?)
}

/// Reads a text that is read again while the process runs: a regular file, because a pipe has its content once.
///
/// # Errors
/// As [`read_text`], and if this is no regular file.
pub fn reread_text(path: &Path, len_max: usize) -> Result<String, FileError> {
    if !is_regular(path, &open(path)?)? {
        let remedy = "name one, because it is read again while the process runs";
        return Err(FileError::with_remedy(path, "this is no regular file", remedy));
    }
    read_text(path, len_max)
}

/// Opens a file for reading; a pipe without a writer is opened, too.
fn open(path: &Path) -> Result<File, FileError> {
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    opened.map_err(|error| FileError::unreadable(path, &error))
}

fn is_regular(path: &Path, file: &File) -> Result<bool, FileError> {
    let metadata = file.metadata().map_err(|error| FileError::unreadable(path, &error))?;
    // Reading a folder fails with a text of the system.
    Ok(metadata.is_file() || metadata.is_dir())
}

/// Waits until there is something to read, or the end. A signal ends the wait: it may be one that stops the process.
fn await_writer(path: &Path, file: &File) -> Result<(), FileError> {
    let wait = Timespec { tv_sec: WRITER_WAIT_S, tv_nsec: 0 };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&wait)) {
        Ok(0) => {
            let why = format!("this is a pipe, and nothing was written to it for {WRITER_WAIT_S} s");
            Err(FileError::with_remedy(path, why, "name a file, or start the writer before"))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(FileError::unreadable(path, &error.into())),
    }
}

fn text_of(path: &Path, content: Vec<u8>) -> Result<String, FileError> {
    String::from_utf8(content).map_err(|_| FileError::with_remedy(path, "this is no text in UTF-8", "check the path"))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::thread::spawn;

    use super::*;

    fn why<T>(read: Result<T, FileError>) -> String {
        read.err().expect("an error").to_string()
    }

    fn fifo() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        (folder, path)
    }

    #[test]
    fn a_file_at_the_cap_is_read_and_a_longer_one_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, "12345").expect("a file");
        assert_eq!(read_text(&path, 5).expect("a text"), "12345");
        assert_eq!(reread_text(&path, 5).expect("a text"), "12345");
        let refused = why(read_file(&path, 4));
        assert!(refused.ends_with("file: longer than the 4 bytes that are read; check the path"), "{refused}");
        std::fs::write(&path, [0xff]).expect("a file");
        assert!(why(read_text(&path, 5)).contains("no text in UTF-8"));
        assert!(why(read_text(folder.path(), 5)).contains("Is a directory"));
        assert!(why(read_text(&folder.path().join("none"), 5)).contains("No such file"));
    }

    #[test]
    fn a_device_without_end_is_read_up_to_the_cap() {
        let zero = Path::new("/dev/zero");
        assert!(why(read_file(zero, 100_000)).contains("longer than the 100000 bytes"));
        assert!(why(reread_text(zero, 100)).contains("this is no regular file"));
        assert_eq!(read_text(Path::new("/dev/null"), 5).expect("an empty text"), "");
    }

    #[test]
    fn a_pipe_without_a_writer_is_refused_after_a_while() {
        let (_folder, path) = fifo();
        assert!(why(read_file(&path, 5)).contains("nothing was written to it for 2 s"));
        assert!(why(reread_text(&path, 5)).contains("this is no regular file"));
    }

    #[test]
    fn a_pipe_is_read_until_its_writer_ends() {
        let (_folder, path) = fifo();
        let write = format!("(printf 123; printf 45) > {}", path.display());
        let mut writer = Command::new("sh").args(["-c", &write]).stdin(Stdio::null()).spawn().expect("a shell");
        assert_eq!(read_text(&path, 5).expect("a text"), "12345");
        assert!(writer.wait().expect("an end").success());
        let endless = path.clone();
        let writer = spawn(move || std::fs::write(endless, vec![b'x'; 1 << 20]));
        assert!(why(read_file(&path, 100)).contains("longer than the 100 bytes"));
        let _ = writer.join();
    }
}
