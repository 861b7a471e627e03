//! Records of the topic `rules`.

use super::{VERSION, WireError, v1};
use tollgate_core::messages::rules::Published;

pub(super) fn to_wire(published: &Published) -> v1::Rules {
    let Published { name, text, overrides, author, comment, replaces } = published.clone();
    v1::Rules { version: VERSION, name, text, overrides, author, comment, replaces }
}

#[expect(clippy::unnecessary_wraps, reason = "decoding has one form for all topics")]
pub(super) fn from_wire(wire: v1::Rules) -> Result<Published, WireError> {
    let v1::Rules { version: _, name, text, overrides, author, comment, replaces } = wire;
    Ok(Published { name, text, overrides, author, comment, replaces })
}
