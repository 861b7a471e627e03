//! Records of the topic `rules`.

use super::{VERSION, WireError, v1};
use tollgate_core::messages::rules::Published;

pub(super) fn to_wire(published: &Published) -> v1::Rules {
    v1::Rules { version: VERSION, name: published.name.clone(), text: published.text.clone() }
}

#[expect(clippy::unnecessary_wraps, reason = "decoding has one form for all topics")]
pub(super) fn from_wire(wire: v1::Rules) -> Result<Published, WireError> {
    Ok(Published { name: wire.name, text: wire.text })
}
