//! Records of the topic `presence`.

use super::{Twin, VERSION, WireError, check, v1};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::CounterId;
use tollgate_core::messages::emergency::EmergencySwitch;
use tollgate_core::messages::presence::{CounterReset, Presence, REFUSAL_LEN_MAX, RESETS_LEN_MAX, Role};
use tollgate_core::rules::Quota;

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
        coordinates: presence.coordinates,
        emergency: presence.emergency.as_ref().map(emergency_to_wire),
        resets: presence.resets.iter().map(reset_to_wire).collect(),
        rules_refusal: presence.rules_refusal.to_string(),
        rules_published: presence.rules_published,
    }
}

pub(super) fn from_wire(wire: v1::Presence) -> Result<Presence, WireError> {
    check(wire.rules_refusal.chars().count() <= REFUSAL_LEN_MAX, "the reason of a heartbeat is too long")?;
    check(wire.resets.len() <= RESETS_LEN_MAX, "the heartbeat has too many resets")?;
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
        coordinates: wire.coordinates,
        emergency: wire.emergency.map(|wire| emergency_from_wire(&wire)).transpose()?,
        resets: wire.resets.iter().map(reset_from_wire).collect(),
        rules_refusal: wire.rules_refusal.into(),
        rules_published: wire.rules_published,
    })
}

fn emergency_to_wire(switch: &EmergencySwitch) -> v1::Emergency {
    v1::Emergency {
        changed_at_ms: switch.changed_at.as_ms(),
        units: switch.quota.map_or(0, Quota::units),
        width_ms: switch.quota.map_or(0, Quota::width_ms),
    }
}

fn emergency_from_wire(wire: &v1::Emergency) -> Result<EmergencySwitch, WireError> {
    let quota = (wire.units > 0).then(|| Quota::new(wire.units, wire.width_ms));
    let quota = quota.transpose().map_err(|_| WireError::Invalid("the quota of an emergency is out of range"))?;
    Ok(EmergencySwitch { quota, changed_at: Timestamp::from_ms(wire.changed_at_ms) })
}

#[expect(clippy::cast_possible_truncation, reason = "the digest is split into its two halves")]
fn reset_to_wire(reset: &CounterReset) -> v1::CounterReset {
    let id = reset.counter.as_u128();
    v1::CounterReset { id_high: (id >> 64) as u64, id_low: id as u64, at_ms: reset.at.as_ms() }
}

fn reset_from_wire(wire: &v1::CounterReset) -> CounterReset {
    let id = (u128::from(wire.id_high) << 64) | u128::from(wire.id_low);
    CounterReset { counter: CounterId::from_u128(id), at: Timestamp::from_ms(wire.at_ms) }
}
