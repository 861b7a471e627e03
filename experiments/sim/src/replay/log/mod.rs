//! Logs: the forms in which servers, balancers and clouds write calls, and the call of each line.
//!
//! Each family of formats is a file with a pure parser and a table of cases. `formats` is the table of all, and `refused` that of
//! the formats that are not read. No line is counted for a client that it does not name beyond doubt (`client_choice`).

mod token;
mod instant;
mod address;
mod request_target;
mod log_call;
mod forwarding;
mod client_choice;
mod client_source;
mod combined;
mod envoy;
mod haproxy;
mod aws_balancer;
mod w3c;
mod json;
mod containers;
mod prefixes;
mod messages;
mod refused;
mod formats;
mod log_decoder;

pub use client_choice::ClientChoice;
pub use client_source::ClientSource;
pub use log_decoder::LogOptions;

pub(super) use address::LoggedClient;
pub(super) use client_source::passed_over;
pub(super) use log_call::{AddressKind, LogCall};
pub(super) use log_decoder::{LogDecoder, NoCall, ReadCall};
pub(super) use refused::{BEGINNING_LEN, of_file as refused_file};
