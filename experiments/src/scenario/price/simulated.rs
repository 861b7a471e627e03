//! Results of the simulated fleets, and the percentages that they give.

use tollgate_sim::figures::ratio;

use super::leases::LeaseCell;
use super::record_sizes::RecordSizes;
use crate::scenario::fleet::FleetTally;

pub(super) struct Simulated {
    pub(super) cells: Vec<LeaseCell>,
    /// By load.
    pub(super) sizes: Vec<RecordSizes>,
}

pub(super) fn under_percent(tally: &FleetTally) -> f64 {
    100.0 * ratio(tally.under_admitted, tally.calls)
}

/// Returns the calls that leases deny although there was room, in percent: those with leases, less those without.
pub(super) fn stranded_percent(cell: &LeaseCell) -> f64 {
    under_percent(&cell.on) - under_percent(&cell.off)
}

/// Returns the same as [`stranded_percent`], of calls under two rules.
pub(super) fn stranded_of_two_percent(cell: &LeaseCell) -> f64 {
    under_percent(&cell.two) - under_percent(&cell.off)
}
