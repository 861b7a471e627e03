//! Key of all digests, from a file.

use std::path::Path;

use tollgate::read_text;
use tollgate_core::counter::DigestKey;

use tollgate_command::exit::Usage;

/// Maximum length of a file with a digest key, in bytes.
const DIGEST_KEY_LEN_MAX: usize = 1 << 10;

/// Fails if there is no such file, or no key in it.
pub(crate) fn digest_key(path: &Path) -> anyhow::Result<DigestKey> {
    // A file that exists may hold something else, so only the remedy for a missing file writes to the path.
    let shown = path.display();
    if !path.try_exists()? {
        let remedy = format!("create a key with `openssl rand -hex 16 > {shown}` and give it to all agents");
        return Err(Usage(format!("{shown}: there is no such file; {remedy}")).into());
    }
    let text = read_text(path, DIGEST_KEY_LEN_MAX).map_err(|error| Usage(error.to_string()))?;
    let digits = text.trim();
    let key = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32);
    let refuse = || {
        let remedy = "check the path, or create a key in a new file with `openssl rand -hex 16`";
        Usage(format!("{shown}: this is no digest key, which is 32 hexadecimal digits; {remedy}"))
    };
    Ok(DigestKey::new(key.ok_or_else(refuse)?.to_be_bytes()))
}
