//! One life of an aggregator.

use tollgate_aggregator_engine::worker::Worker;
use tollgate_core::clock::Timestamp;

use crate::budget_member::BudgetMember;
use crate::bus::SimReader;
use crate::environment::Environment;
use crate::event::{AggregatorEvent, Life, SimEvent, Writer};
use crate::observation::SimNode;
use crate::planted_bugs::NewestUnits;
use crate::region_mistake::RegionMistake;

/// A running aggregator; its state is lost in a crash.
pub(super) struct AggregatorLife {
    pub(super) index: usize,
    pub(super) life: Life,
    pub(super) worker: Worker,
    /// Its part in the budgets of regions; none in a world of one region.
    pub(super) member: Option<BudgetMember>,
    pub(super) calls: SimReader,
    pub(super) presence: SimReader,
    pub(super) newest: NewestUnits,
    pub(super) is_prompt: bool,
    /// The end of a pause, in which it does nothing, as one whose process is suspended.
    pub(super) paused_until: Timestamp,
}

impl AggregatorLife {
    /// Suspends the process until an instant.
    pub(super) fn pause(&mut self, now: Timestamp, until: Timestamp, mistake: Option<RegionMistake>) {
        let from = self.paused_until.max(now);
        self.paused_until = self.paused_until.max(until);
        if let (Some(member), Some(RegionMistake::ClockStops)) = (&mut self.member, mistake) {
            member.stop_clock(self.paused_until.ms_since(from));
        }
    }

    pub(super) fn node(&self) -> SimNode {
        SimNode::Aggregator(self.index)
    }

    pub(super) fn writer(&self) -> Writer {
        Writer { node: self.node(), life: self.life }
    }

    pub(super) fn later(&self, env: &mut Environment<'_>, ms: u64, event: AggregatorEvent) {
        env.scheduler.after(ms, SimEvent::Aggregator(self.index, self.life, event));
    }
}
