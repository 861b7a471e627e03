//! A window of whole sub-windows, and the sub-window of an instant.

use std::num::{NonZeroU32, NonZeroU64};

use crate::clock::Timestamp;

/// Maximum width of a window, in ms: a leap year.
pub const WIDTH_MS_MAX: u64 = 366 * 24 * 3_600 * 1_000;
/// Maximum number of sub-windows.
pub const SUB_WINDOWS_MAX: u32 = 120;

/// Minimum width of one of many sub-windows, in ms: a lease ends with its sub-window.
const FINE_SUB_WINDOW_MS_MIN: u64 = 100;

/// Index of a sub-window since the epoch: sub-window i is [i·W/n, (i+1)·W/n).
pub type SubWindow = u64;

/// Width W and number of sub-windows n of a window; W/n is a whole number of milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub(super) sub_windows: NonZeroU32,
    pub(super) sub_window_ms: NonZeroU64,
}

/// Error of a window that cannot be represented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Width of zero, or above [`WIDTH_MS_MAX`], in ms.
    #[error("a window is between 1 ms and 366 days wide, not {0} ms")]
    Width(u64),
    /// No sub-windows, or more than [`SUB_WINDOWS_MAX`].
    #[error("a window has 1 to {SUB_WINDOWS_MAX} sub-windows, not {0}")]
    SubWindows(u32),
    /// Width in ms, and a number of sub-windows that are not whole milliseconds.
    #[error("{1} sub-windows do not divide {0} ms into whole milliseconds")]
    Uneven(u64, u32),
}

impl Window {
    /// Creates a window of `width_ms` with this number of sub-windows.
    ///
    /// # Errors
    /// Returns an error if either is out of range, or if the sub-windows would not be whole milliseconds.
    pub fn new(width_ms: u64, sub_windows: u32) -> Result<Self, WindowError> {
        let width = NonZeroU64::new(width_ms).filter(|width| width.get() <= WIDTH_MS_MAX);
        let count = NonZeroU32::new(sub_windows).filter(|count| count.get() <= SUB_WINDOWS_MAX);
        width.ok_or(WindowError::Width(width_ms))?;
        let count = count.ok_or(WindowError::SubWindows(sub_windows))?;
        let sub_window_ms =
            NonZeroU64::new(width_ms / u64::from(sub_windows)).filter(|_| width_ms.is_multiple_of(sub_windows.into()));
        let sub_window_ms = sub_window_ms.ok_or(WindowError::Uneven(width_ms, sub_windows))?;
        Ok(Self { sub_windows: count, sub_window_ms })
    }

    /// Creates a window with the largest number of sub-windows out of 12, 10, 8, 6, 5, 4, 3, 2, 1 that gives whole
    /// milliseconds.
    ///
    /// # Errors
    /// Returns an error if the width is out of range.
    pub fn with_default_sub_windows(width_ms: u64) -> Result<Self, WindowError> {
        let sub_windows =
            [12, 10, 8, 6, 5, 4, 3, 2].into_iter().find(|sub_windows| width_ms.is_multiple_of(u64::from(*sub_windows)));
        Self::new(width_ms, sub_windows.unwrap_or(1))
    }

    /// Creates a window with up to 60 sub-windows of at least 100 ms each, so that the conservative estimate counts few units for
    /// longer than a window. A window of less than a second has the default ones.
    ///
    /// # Errors
    /// Returns an error if the width is out of range.
    pub fn with_fine_sub_windows(width_ms: u64) -> Result<Self, WindowError> {
        let is_fine = |sub_windows: &u32| {
            width_ms.is_multiple_of(u64::from(*sub_windows))
                && width_ms / u64::from(*sub_windows) >= FINE_SUB_WINDOW_MS_MIN
        };
        let sub_windows = [60, 50, 40, 30, 25, 24, 20, 15].into_iter().find(is_fine);
        sub_windows
            .map_or_else(|| Self::with_default_sub_windows(width_ms), |sub_windows| Self::new(width_ms, sub_windows))
    }

    /// Returns the width W in ms.
    #[must_use]
    pub const fn width_ms(self) -> u64 {
        self.sub_window_ms.get() * self.sub_windows.get() as u64
    }

    /// Returns the number n of sub-windows.
    #[must_use]
    pub const fn sub_windows(self) -> u32 {
        self.sub_windows.get()
    }

    /// Returns the width W/n of a sub-window in ms.
    #[must_use]
    pub const fn sub_window_ms(self) -> u64 {
        self.sub_window_ms.get()
    }

    /// Returns the sub-window that contains an instant.
    #[must_use]
    pub fn sub_window(self, at: Timestamp) -> SubWindow {
        at.as_ms() / self.sub_window_ms()
    }

    /// Returns true if a sub-window contains an instant. It divides nothing.
    #[must_use]
    pub fn is_in(self, sub_window: SubWindow, at: Timestamp) -> bool {
        let start = sub_window.checked_mul(self.sub_window_ms());
        start.and_then(|start| at.as_ms().checked_sub(start)).is_some_and(|ms| ms < self.sub_window_ms())
    }

    /// Returns the first instant of a sub-window.
    #[must_use]
    pub fn start_of(self, sub_window: SubWindow) -> Timestamp {
        Timestamp::from_ms(sub_window.saturating_mul(self.sub_window_ms()))
    }

    /// Returns the last instant of a sub-window.
    #[must_use]
    pub fn end_of(self, sub_window: SubWindow) -> Timestamp {
        self.start_of(sub_window).plus_ms(self.sub_window_ms() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_parts_are_the_largest_that_divide() {
        let sub_windows = |width_ms| Window::with_default_sub_windows(width_ms).unwrap().sub_windows();
        assert_eq!(sub_windows(60_000), 12);
        assert_eq!(sub_windows(1_000), 10);
        assert_eq!(sub_windows(7), 1);
        assert_eq!(sub_windows(9), 3);
    }

    #[test]
    fn fine_parts_are_up_to_sixty() {
        for (width_ms, sub_windows) in
            [(3_600_000, 60), (60_000, 60), (10_000, 50), (7_000, 50), (3_000, 30), (2_000, 20), (1_000, 10), (9, 3)]
        {
            assert_eq!(Window::with_fine_sub_windows(width_ms).map(Window::sub_windows), Ok(sub_windows), "{width_ms}");
        }
        assert_eq!(Window::with_fine_sub_windows(0), Err(WindowError::Width(0)));
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
        assert!(matches!(Window::new(1_000, 0), Err(WindowError::SubWindows(_))));
        assert!(matches!(Window::new(1_000, 7), Err(WindowError::Uneven(..))));
    }
}
