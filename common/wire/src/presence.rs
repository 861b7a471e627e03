//! Records of the topic `presence`.

use super::{VERSION, WireError, check_version, shared_texts, v1};
use tollgate_core::clock::Timestamp;
use tollgate_core::messages::presence::{Presence, Role};

pub(super) fn to_wire(presence: &Presence) -> v1::Presence {
    let role = match presence.role {
        Role::Agent => v1::Role::Agent,
        Role::Aggregator => v1::Role::Aggregator,
    };
    v1::Presence {
        version: VERSION,
        id: presence.id.to_string(),
        epoch: presence.epoch,
        region: presence.region.to_string(),
        role: role.into(),
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
    check_version(wire.version)?;
    let role = match wire.role() {
        v1::Role::Agent => Role::Agent,
        v1::Role::Aggregator => Role::Aggregator,
        v1::Role::Unspecified => return Err(WireError::Invalid("the member has an unknown role")),
    };
    Ok(Presence {
        id: wire.id.into(),
        epoch: wire.epoch,
        region: wire.region.into(),
        role,
        generation: wire.generation,
        clock: Timestamp::from_ms(wire.clock_ms),
        open_breakers: shared_texts(wire.open_breakers),
        dropped_rows: wire.dropped_rows,
        leaving: wire.leaving,
        http: wire.http.into(),
        partitions: wire.partitions,
    })
}
