//! Numbers on a command line, refused in plain words.

use std::num::NonZeroU32;

/// Reads how many there are of something that cannot be missing.
pub(crate) fn positive(text: &str) -> Result<NonZeroU32, &'static str> {
    text.parse().map_err(|_| "write a whole number from 1 to 4294967295")
}
