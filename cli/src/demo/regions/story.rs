//! The story of the demo: its regions, their quota, and the chapters.

use std::time::Duration;

use tollgate::Quota;

pub(super) const REGIONS: [&str; 3] = ["eu", "us", "ap"];
pub(super) const QUOTA_UNITS: u64 = 400;
pub(super) const QUOTA_WIDTH_MS: u64 = 2_000;
pub(super) const LENGTH: Duration = Duration::from_secs(20);

pub(super) struct Chapter {
    pub(super) from: Duration,
    pub(super) what: &'static str,
    /// Load of each region, in percent of the quota.
    pub(super) load_percent: [u64; REGIONS.len()],
    /// Region without connection to the ledger.
    pub(super) cut_off: Option<usize>,
}

/// A budget that is cut off ends after its term of 5 s; the ledger returns its units a window later.
pub(super) const STORY: [Chapter; 4] = [
    Chapter {
        from: Duration::ZERO,
        what: "it is day in eu, which gets nearly all units",
        load_percent: [150, 2, 2],
        cut_off: None,
    },
    Chapter {
        from: Duration::from_secs(4),
        what: "the load moves to us: eu gives back what has left its window",
        load_percent: [2, 150, 2],
        cut_off: None,
    },
    Chapter {
        from: Duration::from_secs(8),
        what: "us is cut off, and keeps its units until their term ends; ap wakes up",
        load_percent: [2, 150, 150],
        cut_off: Some(1),
    },
    Chapter {
        from: Duration::from_secs(16),
        what: "us is back, and shares with ap",
        load_percent: [2, 150, 150],
        cut_off: None,
    },
];

pub(super) fn chapter_at(at: Duration) -> &'static Chapter {
    STORY.iter().rev().find(|chapter| at >= chapter.from).unwrap_or(&STORY[0])
}

pub(super) fn quota() -> Quota {
    Quota::new(QUOTA_UNITS, QUOTA_WIDTH_MS).expect("neither is zero")
}
