//! Logs whose lines are JSON: those of Tollgate, of servers and clouds with known fields, and any others by names that are usual.

mod unique;
mod lookup;
mod own_call;
mod fields;
mod formats;
mod mapped;

pub(super) use fields::JsonFields;
pub(super) use formats::{AZURE, CADDY, CLOUDFLARE, GOOGLE, TRAEFIK, USUAL};
pub(super) use lookup::text_at;
pub(super) use mapped::parse as parse_mapped;
pub(super) use own_call::{detects as detects_own, parse as parse_own};
pub(super) use unique::object;
