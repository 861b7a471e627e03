//! Numbers on a command line.

use std::num::NonZeroU32;

/// Parses a number above 0.
pub(crate) fn positive(text: &str) -> Result<NonZeroU32, &'static str> {
    text.parse().map_err(|_| "write a whole number from 1 to 4294967295")
}
