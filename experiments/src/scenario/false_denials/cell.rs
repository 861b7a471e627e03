//! Tallies of one load and one quota.

use super::tally::Tally;

/// Tallies of all contenders in a cell.
pub(super) struct Cell {
    pub(super) load: f64,
    pub(super) quota: u64,
    pub(super) tallies: Vec<Tally>,
}
