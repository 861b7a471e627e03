//! The load: calls of one key at an even pace to each region, as the story says.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tollgate::Call;
use tollgate_core::clock::Stopwatch;

use super::record::{RegionDecision, RegionRecord};
use super::{LENGTH, QUOTA_UNITS, QUOTA_WIDTH_MS, chapter_at};
use crate::local_regions::LocalRegion;

/// Interval in which the calls that are due are made.
const TICK: Duration = Duration::from_millis(5);

/// Starts the callers, which call until the run ends.
pub(super) fn start(regions: &[LocalRegion], record: &Arc<Mutex<RegionRecord>>, since: Stopwatch) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for (number, region) in regions.iter().enumerate() {
        let (agent, record) = (region.agent.clone(), record.clone());
        tasks.spawn(async move {
            let mut ticks = tokio::time::interval(TICK);
            // Calls that are due, in millionths of a call.
            let (mut due, mut looked_at) = (0, since.elapsed());
            while since.elapsed() < LENGTH {
                ticks.tick().await;
                let at = since.elapsed();
                let passed_us = at.saturating_sub(std::mem::replace(&mut looked_at, at)).as_micros();
                let per_second = chapter_at(at).load_percent[number] * QUOTA_UNITS * 10 / QUOTA_WIDTH_MS;
                due += passed_us * u128::from(per_second);
                while due >= 1_000_000 {
                    due -= 1_000_000;
                    let decision = agent.decide(&Call::new().with("api_key", "partner")).await;
                    let limit = decision.status.as_ref().map_or(0, |status| status.limit);
                    let (at, is_admitted) = (since.elapsed(), decision.allowed);
                    record.lock().enter(RegionDecision { region: number, at, is_admitted, limit });
                }
            }
        });
    }
    tasks
}
