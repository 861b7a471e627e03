//! The part of the log that is read to restore a partition's counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tollgate_core::clock::Timestamp;
use tollgate_core::rules::RuleSet;

/// Maximum delay of a record behind the charges that it holds, in ms: late batches, and differing clocks.
const SLACK_MS: u64 = 120_000;
const UNKNOWN: u64 = 0;

/// The age of the oldest record that a count needs: the widest window of the known rules, or unlimited while no rules are
/// known. Clones share one value.
#[derive(Clone, Debug, Default)]
pub struct ReplayWindow(Arc<AtomicU64>);

impl ReplayWindow {
    /// Widens the replay window to the windows of these rules.
    pub fn cover(&self, rules: &RuleSet) {
        let windows = rules.rules.iter().flat_map(|rule| rule.all_policies()).map(|policy| policy.window);
        let widths_ms = windows.map(|window| window.width_ms() + window.sub_window_ms() + SLACK_MS);
        self.0.fetch_max(widths_ms.max().unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// Returns the append time of the oldest record that is needed; nothing if all records are.
    #[must_use]
    pub fn start(&self, now: Timestamp) -> Option<Timestamp> {
        match self.0.load(Ordering::Relaxed) {
            UNKNOWN => None,
            width_ms => Some(now.minus_ms(width_ms)),
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::rules::{Quota, Rule};

    use super::*;

    #[test]
    fn the_widest_window_of_all_rules_decides() {
        let (replay_window, now) = (ReplayWindow::default(), Timestamp::from_ms(10_000_000));
        assert_eq!(replay_window.start(now), None, "without rules everything is read");
        // Width of a rule's window in ms, and the start of the replay after that rule: W + W/n + slack earlier.
        for (width_ms, start_ms) in [(60_000, 9_815_000), (1_200, 9_815_000), (3_600_000, 5_980_000)] {
            let rule = Rule::per("r", &["api_key"], Quota::new(1, width_ms).unwrap());
            replay_window.cover(&RuleSet::new(1, [rule]));
            assert_eq!(replay_window.start(now), Some(Timestamp::from_ms(start_ms)), "after {width_ms} ms");
        }
        replay_window.cover(&RuleSet::new(2, []));
        assert_eq!(replay_window.clone().start(now), Some(Timestamp::from_ms(5_980_000)), "it never narrows");
    }
}
