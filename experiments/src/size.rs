//! How big the big tests are: a tenth by default, whole with `TOLLGATE_TEST_FULL=1`, as `scripts/test --full` sets it.

/// The number that a test runs, of the full one.
#[must_use]
pub fn scaled(full: u64) -> u64 {
    if std::env::var_os("TOLLGATE_TEST_FULL").is_some() { full } else { full.div_ceil(10) }
}
