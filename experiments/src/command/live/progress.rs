//! Progress bars of the measurements.

pub(super) const CALLS_BAR: &str = "{msg:18} {bar:40} {human_pos} of {human_len} calls";
pub(super) const FAULTS_BAR: &str = "{msg:18} {bar:40} {human_pos} of {human_len} faults";
pub(super) const STATES_BAR: &str = "{msg:18} {bar:40} {human_pos} of {human_len} states";
