//! Bugs that a test plants in the aggregator's way, to see that the invariants find them.

use std::collections::HashMap;

use tollgate_core::counter::CounterId;
use tollgate_core::messages::calls::{Batch, Outcome, Row};
use tollgate_core::messages::signals::Offset;
use tollgate_core::window::SubWindow;

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A batch that arrives twice counts twice.
    DuplicateCounted,
    /// When a counter's time rolls over, its last sub-window is lost.
    SubWindowLost,
}

/// Plants a bug in what the aggregator is given.
#[derive(Debug, Default)]
pub(super) struct Planted {
    pub(super) bug: Option<Bug>,
    newest: HashMap<CounterId, (SubWindow, i64)>,
}

impl Planted {
    pub(super) fn corrupt(&mut self, offset: Offset, batch: &mut Batch) {
        match self.bug {
            None => {}
            Some(Bug::DuplicateCounted) => batch.name.sequence = offset + 1,
            Some(Bug::SubWindowLost) => {
                let rows = std::mem::take(&mut batch.rows);
                batch.rows = rows.into_iter().flat_map(|row| self.lose(&batch.counters, row)).collect();
            }
        }
    }

    fn lose(&mut self, counters: &[tollgate_core::messages::calls::CounterEntry], row: Row) -> Vec<Row> {
        let Some(counter) = row.counter.filter(|_| row.outcome == Outcome::Admitted) else {
            return vec![row];
        };
        let last = self.newest.entry(counters[counter as usize].id).or_insert((row.sub_window, 0));
        if row.sub_window <= last.0 {
            last.1 += if row.sub_window == last.0 { row.cost } else { 0 };
            return vec![row];
        }
        let (sub_window, units) = std::mem::replace(last, (row.sub_window, row.cost));
        vec![Row { sub_window, cost: -units, home: None, ..row.clone() }, row]
    }
}
