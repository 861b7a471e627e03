//! Errors of a way of counting.

use tollgate_sim::figures::ratio;

/// Errors of a way of counting, in calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    pub(super) calls: u64,
    pub(super) absolute: u64,
    pub(super) sum: i64,
    pub(super) least: i64,
    pub(super) most: i64,
    /// Calls past the limit, and those of them that the count would admit.
    pub(super) past: u64,
    pub(super) passed: u64,
    /// Calls within the limit that the count would deny.
    pub(super) denied: u64,
}

impl Errors {
    pub(super) fn enter(&mut self, counted: u64, truth: u64, limit: u64) {
        let error = counted.cast_signed() - truth.cast_signed();
        self.calls += 1;
        self.absolute += error.unsigned_abs();
        self.sum += error;
        (self.least, self.most) = (self.least.min(error), self.most.max(error));
        self.past += u64::from(truth > limit);
        self.passed += u64::from(truth > limit && counted <= limit);
        self.denied += u64::from(truth <= limit && counted > limit);
    }

    /// Returns the mean of the errors without their signs.
    pub(super) fn mean(&self) -> f64 {
        ratio(self.absolute, self.calls)
    }

    /// Returns the mean of the errors with their signs.
    #[expect(clippy::cast_precision_loss, reason = "sums of at most billions")]
    pub(super) fn bias(&self) -> f64 {
        self.sum as f64 / self.calls.max(1) as f64
    }

    /// Returns the largest error without its sign.
    #[expect(clippy::cast_precision_loss, reason = "a number of calls")]
    pub(super) fn largest(&self) -> f64 {
        self.most.max(-self.least) as f64
    }

    pub(super) fn passed_percent(&self) -> f64 {
        100.0 * ratio(self.passed, self.past)
    }

    pub(super) fn denied_percent(&self) -> f64 {
        100.0 * ratio(self.denied, self.calls - self.past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_signs_and_count_wrong_decisions() {
        let mut errors = Errors::default();
        // Counted and true, at a limit of 100.
        for (counted, truth) in [(110, 90), (95, 105), (120, 110)] {
            errors.enter(counted, truth, 100);
        }
        assert_eq!((errors.least, errors.most, errors.sum, errors.absolute), (-10, 20, 20, 40));
        assert_eq!((errors.passed, errors.past, errors.denied), (1, 2, 1));
    }
}
