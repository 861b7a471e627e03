//! The layer in real servers of axum and tonic, over real sockets.

mod support;
mod http;
mod slots;
mod turns;
mod redis;
mod grpc;
mod own_answers;
mod log;
mod allocations;
mod examples;
