//! The HTTP surface over real sockets, as gateways and operators see it.

mod contract;
mod support;
mod openapi;
mod examples;
mod settle_release;
mod reset;
mod json;
mod batch;
mod admin;
mod emergency;
mod check;
mod headers;
mod log;
mod own_answers;
mod refusals;
mod shutdown;
mod tokens;
mod gateway_headers;
mod explain;
mod imported;
mod large_costs;
