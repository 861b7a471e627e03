//! A window of whole sub-windows, and the sub-window of an instant.

use std::num::{NonZeroU32, NonZeroU64};

use crate::clock::Timestamp;

/// Maximum width of a window, in ms: a leap year.
pub const WIDTH_MS_MAX: u64 = 366 * 24 * 3_600 * 1_000;
/// Maximum number of sub-windows.
pub const PARTS_MAX: u32 = 120;

/// Minimum width of one of many sub-windows, in ms: a lease ends with its sub-window.
const FINE_PART_MS_MIN: u64 = 100;

/// Index of a sub-window since the epoch: sub-window i is [i·W/n, (i+1)·W/n).
pub type SubWindow = u64;

/// Width W and number of sub-windows n of a window; W/n is a whole number of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub(super) parts: NonZeroU32,
    pub(super) part_ms: NonZeroU64,
}

/// Error of a window that cannot be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Width of zero, or above [`WIDTH_MS_MAX`], in ms.
    #[error("a window is between 1 ms and 366 days wide, not {0} ms")]
    Width(u64),
    /// No sub-windows, or more than [`PARTS_MAX`].
    #[error("a window has 1 to {PARTS_MAX} sub-windows, not {0}")]
    Parts(u32),
    /// Width in ms, and a number of sub-windows that are not whole milliseconds.
    #[error("{1} sub-windows do not divide {0} ms into whole milliseconds")]
    Uneven(u64, u32),
}

impl Window {
    /// Creates a window of `width_ms` with `parts` sub-windows.
    ///
    /// # Errors
    /// Returns an error if either is out of range, or if the sub-windows would not be whole milliseconds.
    pub fn new(width_ms: u64, parts: u32) -> Result<Self, WindowError> {
        let width = NonZeroU64::new(width_ms).filter(|width| width.get() <= WIDTH_MS_MAX);
        let count = NonZeroU32::new(parts).filter(|count| count.get() <= PARTS_MAX);
        width.ok_or(WindowError::Width(width_ms))?;
        let count = count.ok_or(WindowError::Parts(parts))?;
        let part_ms = NonZeroU64::new(width_ms / u64::from(parts)).filter(|_| width_ms.is_multiple_of(parts.into()));
        let part_ms = part_ms.ok_or(WindowError::Uneven(width_ms, parts))?;
        Ok(Self { parts: count, part_ms })
    }

    /// Creates a window with the largest number of sub-windows out of 12, 10, 8, 6, 5, 4, 3, 2, 1 that gives whole
    /// milliseconds.
    ///
    /// # Errors
    /// Returns an error if the width is out of range.
    pub fn with_default_parts(width_ms: u64) -> Result<Self, WindowError> {
        let parts = [12, 10, 8, 6, 5, 4, 3, 2].into_iter().find(|parts| width_ms.is_multiple_of(u64::from(*parts)));
        Self::new(width_ms, parts.unwrap_or(1))
    }

    /// Creates a window with up to 60 sub-windows of at least 100 ms each, so that the conservative estimate counts few units for
    /// longer than a window. A window of less than a second has the default ones.
    ///
    /// # Errors
    /// Returns an error if the width is out of range.
    pub fn with_fine_parts(width_ms: u64) -> Result<Self, WindowError> {
        let is_fine = |parts: &u32| {
            width_ms.is_multiple_of(u64::from(*parts)) && width_ms / u64::from(*parts) >= FINE_PART_MS_MIN
        };
        let parts = [60, 50, 40, 30, 25, 24, 20, 15].into_iter().find(is_fine);
        parts.map_or_else(|| Self::with_default_parts(width_ms), |parts| Self::new(width_ms, parts))
    }

    /// Returns the width W in ms.
    #[must_use]
    pub const fn width_ms(self) -> u64 {
        self.part_ms.get() * self.parts.get() as u64
    }

    /// Returns the number n of sub-windows.
    #[must_use]
    pub const fn parts(self) -> u32 {
        self.parts.get()
    }

    /// Returns the width W/n of a sub-window in ms.
    #[must_use]
    pub const fn part_ms(self) -> u64 {
        self.part_ms.get()
    }

    /// Returns the sub-window that contains an instant.
    #[must_use]
    pub fn sub_window(self, at: Timestamp) -> SubWindow {
        at.as_ms() / self.part_ms()
    }

    /// Returns true if a sub-window contains an instant. It divides nothing.
    #[must_use]
    pub fn is_in(self, sub_window: SubWindow, at: Timestamp) -> bool {
        let start = sub_window.checked_mul(self.part_ms());
        start.and_then(|start| at.as_ms().checked_sub(start)).is_some_and(|ms| ms < self.part_ms())
    }

    /// Returns the first instant of a sub-window.
    #[must_use]
    pub fn start_of(self, sub_window: SubWindow) -> Timestamp {
        Timestamp::from_ms(sub_window.saturating_mul(self.part_ms()))
    }

    /// Returns the last instant of a sub-window.
    #[must_use]
    pub fn end_of(self, sub_window: SubWindow) -> Timestamp {
        self.start_of(sub_window).plus_ms(self.part_ms() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_parts_are_the_largest_that_divide() {
        let parts = |width_ms| Window::with_default_parts(width_ms).unwrap().parts();
        assert_eq!(parts(60_000), 12);
        assert_eq!(parts(1_000), 10);
        assert_eq!(parts(7), 1);
        assert_eq!(parts(9), 3);
    }

    #[test]
    fn fine_parts_are_up_to_sixty() {
        for (width_ms, parts) in
            [(3_600_000, 60), (60_000, 60), (10_000, 50), (7_000, 50), (3_000, 30), (2_000, 20), (1_000, 10), (9, 3)]
        {
            assert_eq!(Window::with_fine_parts(width_ms).map(Window::parts), Ok(parts), "{width_ms}");
        }
        assert_eq!(Window::with_fine_parts(0), Err(WindowError::Width(0)));
    }

    #[test]
    fn an_instant_is_in_the_sub_window_that_contains_it() {
        let window = Window::new(60_000, 12).unwrap();
        for ms in [0, 4_999, 5_000, 1_763_700_000_123, u64::MAX] {
            let (at, natural) = (Timestamp::from_ms(ms), window.sub_window(Timestamp::from_ms(ms)));
            let around = [natural.saturating_sub(1), natural, natural + 1, u64::MAX];
            assert!(
                around.into_iter().all(|sub_window| window.is_in(sub_window, at) == (sub_window == natural)),
                "{ms}"
            );
        }
    }

    #[test]
    fn impossible_windows_are_refused() {
        assert!(matches!(Window::new(0, 1), Err(WindowError::Width(_))));
        assert!(matches!(Window::new(WIDTH_MS_MAX + 1, 1), Err(WindowError::Width(_))));
        assert!(matches!(Window::new(1_000, 0), Err(WindowError::Parts(_))));
        assert!(matches!(Window::new(1_000, 7), Err(WindowError::Uneven(..))));
    }
}
