//! Admitted and denied calls over time.

use tollgate_core::clock::Timestamp;

use super::result::{Series, SeriesRole};

/// Numbers of admitted and of denied calls by their arrival, in intervals of equal length.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    begin: Timestamp,
    interval_ms: u64,
    /// Admitted and denied calls of each interval.
    intervals: Vec<[u64; 2]>,
}

impl Timeline {
    pub(super) fn new(begin: Timestamp, interval_ms: u64, intervals: usize) -> Self {
        Self { begin, interval_ms, intervals: vec![[0; 2]; intervals] }
    }

    /// Enters a call that arrived at this instant, unless it is outside the intervals.
    pub(super) fn enter(&mut self, arrived: Timestamp, is_admitted: bool) {
        let since_ms = arrived.as_ms().checked_sub(self.begin.as_ms());
        let place = since_ms.and_then(|ms| usize::try_from(ms / self.interval_ms).ok());
        if let Some(interval) = place.and_then(|place| self.intervals.get_mut(place)) {
            interval[usize::from(!is_admitted)] += 1;
        }
    }

    /// Returns the lines of the admitted and of the denied calls over the time in s.
    pub(super) fn series(&self) -> Vec<Series> {
        let line = |(kind, name): (usize, &str)| Series {
            name: name.to_owned(),
            role: SeriesRole::Measured,
            points: steps(self.interval_ms, self.intervals.iter().map(|interval| interval[kind])),
        };
        [(0, "admitted"), (1, "denied")].into_iter().map(line).collect()
    }

    /// Returns the largest number.
    pub(super) fn most(&self) -> u64 {
        self.intervals.iter().flatten().copied().max().unwrap_or_default()
    }
}

/// Returns the points of a line that is level in each interval of time, in s.
#[expect(clippy::cast_precision_loss, reason = "small times and numbers of calls")]
pub(super) fn steps(interval_ms: u64, values: impl Iterator<Item = u64>) -> Vec<(f64, f64)> {
    let second = |place: usize| place as f64 * interval_ms as f64 / 1_000.0;
    values.enumerate().flat_map(|(place, value)| [place, place + 1].map(|end| (second(end), value as f64))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_interval_and_answer() {
        let begin = Timestamp::from_ms(1_000);
        let mut timeline = Timeline::new(begin, 500, 2);
        for (ms, is_admitted) in
            [(999, true), (1_000, true), (1_499, true), (1_500, false), (1_999, true), (2_000, true)]
        {
            timeline.enter(Timestamp::from_ms(ms), is_admitted);
        }
        let lines: Vec<_> = timeline.series().into_iter().map(|line| line.points).collect();
        let [admitted, denied] = &lines[..] else { panic!("two lines") };
        assert_eq!(admitted[..], [(0.0, 2.0), (0.5, 2.0), (0.5, 1.0), (1.0, 1.0)]);
        assert_eq!(denied[..], [(0.0, 0.0), (0.5, 0.0), (0.5, 1.0), (1.0, 1.0)]);
        assert_eq!(timeline.most(), 2);
    }
}
