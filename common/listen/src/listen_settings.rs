//! Caps of a listener.

use std::num::NonZeroU32;
use std::time::Duration;

/// Default of [`ListenSettings::connections_max`].
pub const CONNECTIONS_MAX_DEFAULT: NonZeroU32 = NonZeroU32::new(10_000).expect("not 0");
/// Default of [`ListenSettings::header_bytes_max`].
pub const HEADER_BYTES_MAX_DEFAULT: u32 = 64 << 10;
/// Smallest [`ListenSettings::header_bytes_max`]: the HTTP library reads as much at once.
pub const HEADER_BYTES_MAX_MIN: u32 = 8 << 10;
/// Default of [`ListenSettings::header_timeout`].
pub const HEADER_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);
/// Default of [`ListenSettings::idle_timeout`]. Gateways close their idle connections themselves, mostly after one minute.
pub const IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_hours(1);

/// Caps of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenSettings {
    /// Maximum number of open connections. At the cap, the longest idle ones are closed for new ones.
    pub connections_max: usize,
    /// Maximum length of the headers of a request, in bytes; at least [`HEADER_BYTES_MAX_MIN`].
    pub header_bytes_max: u32,
    /// Maximum time for the first byte of a connection, and from the first byte of a request to that of its response. A connection
    /// that exceeds it is closed after half as long again at the latest.
    pub header_timeout: Duration,
    /// Time after which a connection without requests is closed.
    pub idle_timeout: Duration,
}

impl Default for ListenSettings {
    fn default() -> Self {
        Self {
            connections_max: CONNECTIONS_MAX_DEFAULT.get() as usize,
            header_bytes_max: HEADER_BYTES_MAX_DEFAULT,
            header_timeout: HEADER_TIMEOUT_DEFAULT,
            idle_timeout: IDLE_TIMEOUT_DEFAULT,
        }
    }
}
