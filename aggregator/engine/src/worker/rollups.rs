//! The pace of rollups: once a second the newest seconds for pages, and minutes when they are closed.

use tollgate_core::clock::Timestamp;
use tollgate_core::messages::Topic;
use tollgate_core::messages::rollups::{Rollup, RollupBatch, SECOND_MS, Subject, Totals};

use super::Worker;
use super::effects::WorkerEffect;

/// Interval between the rollups of a partition, in ms.
const INTERVAL_MS: u64 = 1_000;
/// Maximum number of rollups of each kind that a page gets of one partition.
const LIVE_LEN_MAX: usize = 50;
/// Maximum number of rollups of one record. Each has a few hundred bytes.
const RECORD_LEN_MAX: usize = 1_000;

impl Worker {
    pub(super) fn publish_rollups(&mut self, now: Timestamp, effects: &mut Vec<WorkerEffect>) {
        if self.settings.analytics.is_none() || now.ms_since(self.published_rollups.at) < INTERVAL_MS {
            return;
        }
        self.published_rollups.at = now;
        let first = effects.len();
        for (partition, assigned) in &mut self.assigned {
            let (is_restored, log) = (assigned.counting.restored, assigned.counting.log);
            let Some((as_of, _)) = assigned.counting.read else { continue };
            let aggregator = &self.settings.id;
            let batch =
                |rollups| RollupBatch { aggregator: aggregator.clone(), partition: *partition, log, as_of, rollups };
            if is_restored {
                let mut live = assigned.counting.take_live(now, LIVE_LEN_MAX);
                while !live.is_empty() {
                    let rest = live.split_off(live.len().min(RECORD_LEN_MAX));
                    let batch = batch(std::mem::replace(&mut live, rest));
                    effects.push(WorkerEffect::PublishRollups { topic: Topic::Live, tag: 0, batch });
                }
            }
            let Some(rollups) = assigned.counting.rollups_mut() else { continue };
            if self.published_rollups.is_paused(now) {
                continue;
            }
            for (minute, mut taken) in rollups.take_minutes(now, is_restored) {
                while !taken.is_empty() {
                    let rest = taken.split_off(taken.len().min(RECORD_LEN_MAX));
                    let batch = batch(std::mem::replace(&mut taken, rest));
                    let tag = self.published_rollups.add(*partition, minute);
                    effects.push(WorkerEffect::PublishRollups { topic: Topic::Rollups, tag, batch });
                }
            }
        }
        if effects.len() == first {
            effects.extend(self.sign_of_life(now));
        }
    }

    /// Returns a rollup without calls, by which pages know that this aggregator lives.
    fn sign_of_life(&self, now: Timestamp) -> Option<WorkerEffect> {
        let (partition, assigned) = self.assigned.first_key_value()?;
        let start = Timestamp::from_ms(now.as_ms() - now.as_ms() % SECOND_MS);
        let (subject, totals, limit) = (Subject::Calls, Totals::default(), None);
        let batch = RollupBatch {
            aggregator: self.settings.id.clone(),
            partition: *partition,
            log: assigned.counting.log,
            as_of: 0,
            rollups: vec![Rollup { start, size_ms: SECOND_MS, subject, totals, limit }],
        };
        Some(WorkerEffect::PublishRollups { topic: Topic::Live, tag: 0, batch })
    }

    pub(super) fn rollups_reported(&mut self, now: Timestamp, tag: u64, is_lost: bool) {
        let Some((partition, minute)) = self.published_rollups.reported(tag) else { return };
        if let Some(rollups) = self.assigned.get_mut(&partition).and_then(|assigned| assigned.counting.rollups_mut())
            && is_lost
        {
            rollups.lost(minute);
            self.published_rollups.pause(now);
        }
    }
}
