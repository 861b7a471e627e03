//! Key of all digests: a file that `tollgate digest-key` creates once, and all agents of a fleet read.
//!
//! An existing file is never written: it may be in use, or may hold something else.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tollgate_command::exit::{Exit, Usage};
use tollgate_command::output;
use tollgate_core::counter::DigestKey;
use tollgate_files::read_text;

/// Maximum length of a file with a digest key, in bytes.
const DIGEST_KEY_LEN_MAX: usize = 1 << 10;
/// Permissions of a new file: only its owner may read it.
const DIGEST_KEY_MODE: u32 = 0o600;
const RANDOM: &str = "/dev/urandom";

/// Creates the key of all digests in a new file
///
/// Give the same file to all agents (--digest-key-file), so that readers of Redis and Kafka cannot guess callers. A file
/// that holds a key stays as it is. The key is not printed.
#[derive(clap::Args)]
pub(crate) struct DigestKeyArgs {
    /// The file; only its owner may read it
    file: PathBuf,
}

pub(crate) fn run(DigestKeyArgs { file }: &DigestKeyArgs) -> anyhow::Result<Exit> {
    let shown = file.display();
    match OpenOptions::new().write(true).create_new(true).mode(DIGEST_KEY_MODE).open(file) {
        Ok(created) => {
            let written = write_random_key(created);
            if written.is_err() {
                let _ = fs::remove_file(file);
            }
            written.with_context(|| format!("{shown}: the key cannot be written"))?;
            output::note(format_args!("{shown}: created; give the same key to all agents with --digest-key-file"));
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            digest_key(file)?;
            output::note(format_args!("{shown}: holds a key, and stays as it is"));
        }
        Err(error) => return Err(error).with_context(|| format!("{shown}: the file cannot be created")),
    }
    Ok(Exit::Done)
}

fn write_random_key(mut file: File) -> std::io::Result<()> {
    let mut key = [0; 16];
    File::open(RANDOM)?.read_exact(&mut key)?;
    file.write_all(format!("{:032x}\n", u128::from_be_bytes(key)).as_bytes())?;
    file.sync_all()
}

/// Fails if there is no such file, or no key in it.
pub(crate) fn digest_key(path: &Path) -> anyhow::Result<DigestKey> {
    let shown = path.display();
    if !path.try_exists()? {
        let remedy = format!("create it with `tollgate digest-key {shown}` and give it to all agents");
        return Err(Usage(format!("{shown}: there is no such file; {remedy}")).into());
    }
    let text = read_text(path, DIGEST_KEY_LEN_MAX).map_err(|error| Usage(error.to_string()))?;
    let digits = text.trim();
    let key = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
    let refuse = || {
        let remedy = "check the path, or create a key in a new file with `tollgate digest-key`";
        Usage(format!("{shown}: this is no digest key, which is 32 hexadecimal digits; {remedy}"))
    };
    Ok(DigestKey::new(key.ok_or_else(refuse)?.to_be_bytes()))
}
