//! What gateways and operators see of a sidecar, over real sockets.

mod support;
mod amend;
mod json;
mod admin;
mod check;
mod refusals;
mod shutdown;
mod tokens;
