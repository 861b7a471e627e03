//! The replacement of a value that the charge script cannot use: one in the layout of another algorithm or window, or
//! one that is newer than the store's clock, which stepped back.
//!
//! Both are rare (once for each rule change and clock step), so the pure state machine converts and re-bases the
//! counter here, and the result is written by compare-and-set (`lua/replace.lua`). A value that has changed meanwhile
//! is not replaced; the step is repeated in either case ([`Steps`](super::steps::Steps)), and finds what the other
//! agent made of it.

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::counter::{Charge, ChargeMode};

use super::value;

/// Maximum TTL, a hundred years: a huge burst may take longer to refill than Redis accepts as a TTL.
const TTL_MS_MAX: u64 = 3_155_760_000_000;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replacement {
    pub(super) value: Vec<u8>,
    pub(super) ttl_ms: u64,
}

/// The replacement of a value for this charge at `now`, an instant of store time; `None` if the value cannot be read.
pub(super) fn replacement(charge: &Charge, value: &[u8], now: Timestamp) -> Option<Replacement> {
    let mut counter = value::read(value)?;
    let mode = ChargeMode::Evaluate { expires_at: now };
    let evaluation = Charge { cost: 0, mode, ..value::exact_charge(charge) };
    let result = counter.evaluate(&evaluation, now);
    let window = counter.limit().window;
    let idle_in_ms = result
        .verdict
        .reset_at
        .ms_since(now)
        .saturating_add(window.width_ms() + window.sub_window_ms() + CLOCK_ERROR_MAX_MS);
    let ttl_ms = idle_in_ms.min(TTL_MS_MAX);
    Some(Replacement { value: value::write(&counter, result.at), ttl_ms })
}
