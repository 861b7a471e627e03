//! The conformance suite on the engine's own table, which is no [`ChargeStore`] because nothing is ever sent to it.

use std::sync::Arc;

use tollgate_core::clock::{Clock, Timestamp};
use tollgate_core::counter::{Charge, ChargeResults, CounterId};
use tollgate_engine::AgentTable;

use super::{Container, HandClock, Loses, run};
use crate::store::{ChargeStore, StoreError};

struct OwnTable {
    table: AgentTable,
    clock: Arc<HandClock>,
}

impl ChargeStore for OwnTable {
    async fn charge(&self, charges: &[Charge]) -> Result<ChargeResults, StoreError> {
        self.table.charge(charges, self.clock.now())
    }

    async fn ping(&self) -> Result<Timestamp, StoreError> {
        Ok(self.clock.now())
    }
}

impl Loses for OwnTable {
    fn lose(&self, counter: CounterId) {
        self.table.remove(counter);
    }
}

#[test]
fn the_own_table_of_an_engine_conforms() {
    run(Container::InProcess, |clock| OwnTable { table: AgentTable::new(1_000), clock });
}
