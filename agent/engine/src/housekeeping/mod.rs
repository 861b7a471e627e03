//! Work beside the calls: the exchange with the bus, and the maintenance of the store.

mod held_entries;
mod receive;
mod exchange;
mod maintenance;

pub use exchange::{Exchange, ExchangeEffect, ExchangeInput};
pub use held_entries::HeldEntries;
pub use maintenance::{
    Maintenance, MaintenanceEffect, MaintenanceInput, MaintenanceRequest, MaintenanceSettings, WITNESS_KEPT_MS,
    WitnessAnswer,
};
pub use receive::{Incoming, Receipt};
