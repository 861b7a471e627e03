//! What gateways and operators see of a sidecar, over real sockets.

mod support;
mod admin;
mod check;
mod refusals;
mod shutdown;
