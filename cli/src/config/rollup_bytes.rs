//! Bytes that an aggregator writes to the topic `rollups` in a day.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::rollups::{LimitUse, MINUTE_MS, Rollup, RollupBatch, Subject, Totals};
use tollgate_wire::Record;

/// Minutes of a day.
const DAY_MINUTES: u64 = 1_440;

/// Returns the length of the line of a caller with common numbers, in bytes.
fn line_bytes() -> u64 {
    let now = Timestamp::from_ms(1_800_000_000_000);
    let totals =
        Totals { admitted: 100, denied: [20, 0, 0, 0, 0], shadow_denied: 0, units: 100, by_source: [60, 60, 0, 0] };
    let limit =
        LimitUse { quota: 100, window_ms: MINUTE_MS, used: None, generation: now.as_ms(), ..LimitUse::default() };
    let subject = Subject::Caller { rule: "per-key".into(), caller: "api_key=k1…3783ceca".into() };
    let rollup = Rollup { start: now, size_ms: MINUTE_MS, subject, totals, limit: Some(limit) };
    let aggregator = "aggregator-0b32be11".into();
    let batch = RollupBatch { aggregator, partition: 7, log: u64::MAX, as_of: 10_000_000, rollups: vec![rollup] };
    batch.encode().len() as u64
}

/// Returns the bytes of a day for each caller that calls in every minute under one rule, before Kafka compresses them.
pub(super) fn bytes_per_caller_and_day() -> u64 {
    line_bytes() * DAY_MINUTES
}

/// Returns a sentence about the bytes of a day.
pub(super) fn sentence() -> String {
    let bytes = bytes_per_caller_and_day();
    // KB of one caller are as many MB of 1,000 callers.
    let thousands = bytes / 1_000;
    format!(
        "Topic `rollups`, before compression: {thousands} KB a day for a caller that calls in\neach minute under one rule; {thousands} MB a day for 1,000 of them."
    )
}
