//! The results of a request to the store, before its operation continues: denials are cached, and units that it carried are
//! confirmed.

use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Charge;

use crate::call::Destination;
use crate::counters::{hold, next_denial, update_in_step};
use crate::engine::Engine;
use crate::request::store_request::AskedOperation;
use crate::store::ChargeAnswer;

impl Engine {
    /// Learns from the results of a request: units that it carried are charged, and denials are cached or end. A denial that
    /// would follow an admission of the last units is cached, too.
    pub(crate) fn learn(
        &self,
        sent: Timestamp,
        (carried, carried_answers): (&[Charge], &[ChargeAnswer]),
        (own, answers): (&[Charge], &mut [ChargeAnswer]),
        destinations: &[Destination],
        pending: &AskedOperation<'_>,
    ) {
        let confirmed = carried.iter().zip(carried_answers).filter(|(_, answer)| answer.is_ok());
        self.store.confirm_carried(confirmed.map(|(charge, _)| charge));
        for ((charge, answer), destination) in own.iter().zip(answers).zip(destinations) {
            let Ok(result) = answer else { continue };
            if !result.charged && !result.verdict.admitted {
                hold(charge, result);
            }
            let learned = next_denial(result).unwrap_or(*result);
            // Its instants say nothing at the primary that is asked next.
            if destination.is_passing || destination.primary != self.store.primary_of(charge.slot) {
                continue;
            }
            let keeps_units = pending.rule_of(charge).is_some_and(|matched| self.keeps_units(matched));
            self.counters.with(charge.counter, |view| update_in_step(view, charge, &learned, sent, keeps_units));
            self.store.forget_outdated(sent, charge.counter, result.at);
        }
    }
}
