//! The load: calls of one key at an even pace to each region, as the story says.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tollgate_core::clock::Stopwatch;

use super::story::{LENGTH, QUOTA_UNITS, QUOTA_WIDTH_MS, chapter_at};
use crate::demo::load::DemoCaller;
use crate::demo::record::DemoRecord;
use crate::local_regions::LocalRegion;

/// Interval in which the calls that are due are made.
const TICK: Duration = Duration::from_millis(5);

/// Starts the callers, which call until the run ends.
pub(super) fn start(regions: &[LocalRegion], record: &Arc<Mutex<DemoRecord>>, since: Stopwatch) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (origin, region) in (0..).zip(regions) {
        let (agent, record) = (region.agent.clone(), record.clone());
        let caller = DemoCaller { origin, key: "partner".to_owned(), record, since, length: LENGTH };
        tasks.spawn(async move {
            let mut ticks = tokio::time::interval(TICK);
            // Calls that are due, in millionths of a call.
            let (mut due, mut looked_at) = (0, since.elapsed());
            while !caller.has_ended() {
                ticks.tick().await;
                let at = since.elapsed();
                let passed_us = at.saturating_sub(std::mem::replace(&mut looked_at, at)).as_micros();
                let per_second = chapter_at(at).load_percent[origin as usize] * QUOTA_UNITS * 10 / QUOTA_WIDTH_MS;
                due += passed_us * u128::from(per_second);
                while due >= 1_000_000 {
                    due -= 1_000_000;
                    caller.call(&agent).await;
                }
            }
        });
    }
    tasks
}
