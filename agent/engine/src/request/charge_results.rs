//! The results of a request to the store, before its operation continues: denials are cached, and units that it carried are
//! confirmed.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::{Charge, ChargeResults};

use crate::counters::{hold, next_denial, update_in_step};
use crate::engine::Engine;
use crate::request::store_request::AskedOperation;

impl Engine {
    /// Learns from the results of a request: units that it carried are charged, and denials are cached or end. A denial that
    /// would follow an admission of the last units is cached, too. Returns the results of the operation itself.
    pub(crate) fn learn(
        &self,
        sent: Timestamp,
        carried: &[Charge],
        own: &[Charge],
        pending: &AskedOperation<'_>,
        mut results: ChargeResults,
    ) -> ChargeResults {
        if !carried.is_empty() {
            self.store.confirm_carried(carried);
            results.drain(..carried.len().min(results.len()));
        }
        for (charge, result) in own.iter().zip(&mut results) {
            if !result.charged && !result.verdict.admitted {
                hold(charge, result);
            }
            let learned = next_denial(result).unwrap_or(*result);
            let keeps_units = pending.rule_of(charge).is_some_and(|matched| self.keeps_units(matched));
            self.counters.with(charge.counter, |view| update_in_step(view, charge, &learned, sent, keeps_units));
            self.store.forget_outdated(sent, charge.counter, result.at);
        }
        results
    }
}
