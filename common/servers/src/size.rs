//! Size of the big tests: a tenth by default, the full size with `TOLLGATE_TEST_FULL=1`, which `scripts/test --full` sets.

/// Returns the number of repetitions that a test runs of its full number.
#[must_use]
pub fn scaled(full: u64) -> u64 {
    if is_full() { full } else { full.div_ceil(10) }
}

/// Returns true if the tests run at their full size.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("TOLLGATE_TEST_FULL").is_some()
}
