//! Records of the topic `presence`.

use super::{Twin, VERSION, WireError, v1};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{Presence, Role};

pub(super) fn to_wire(presence: &Presence) -> v1::Presence {
    v1::Presence {
        version: VERSION,
        id: presence.id.to_string(),
        epoch: presence.epoch,
        region: presence.region.to_string(),
        role: presence.role.to_wire(),
        generation: presence.generation,
        clock_ms: presence.clock.as_ms(),
        open_breakers: presence.open_breakers.iter().map(ToString::to_string).collect(),
        dropped_rows: presence.dropped_rows,
        leaving: presence.leaving,
        http: presence.http.to_string(),
        partitions: presence.partitions.clone(),
    }
}

pub(super) fn from_wire(wire: v1::Presence) -> Result<Presence, WireError> {
    Ok(Presence {
        id: wire.id.into(),
        epoch: wire.epoch,
        region: wire.region.into(),
        role: Role::from_wire(wire.role)?,
        generation: wire.generation,
        clock: Timestamp::from_ms(wire.clock_ms),
        open_breakers: wire.open_breakers.into_iter().map(Into::into).collect(),
        dropped_rows: wire.dropped_rows,
        leaving: wire.leaving,
        http: wire.http.into(),
        partitions: wire.partitions,
    })
}
