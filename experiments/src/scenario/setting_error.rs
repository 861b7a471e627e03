//! Error of a parameter of an experiment.

use std::fmt::Display;
use std::ops::RangeInclusive;

#[derive(Debug)]
pub(super) struct SettingError {
    pub(super) key: &'static str,
    pub(super) reason: String,
}

impl SettingError {
    pub(super) fn new(key: &'static str, reason: impl Display) -> Self {
        Self { key, reason: format!("`{key}` {reason}") }
    }

    /// Refuses a value outside a range.
    pub(super) fn unless_in<T: Copy + PartialOrd + Display>(
        key: &'static str,
        value: T,
        range: RangeInclusive<T>,
    ) -> Result<(), Self> {
        if range.contains(&value) {
            return Ok(());
        }
        Err(Self::new(key, format!("is {value}; write {} to {}", range.start(), range.end())))
    }
}
