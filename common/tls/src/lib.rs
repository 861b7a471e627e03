//! TLS: certificates in PEM, and clients that know a server by the issuers of its certificate.
//!
//! Servers read their certificates by [`pem`], and `common/listen` makes their handshakes. The agent's connection to Redis and the
//! commands that ask a running process are a [`TlsClient`].
//!
//! Modules are listed in the order of their layers: each one imports only the modules before it, and a test checks this.

pub mod pem;
mod client;
mod handshake_fault;

pub use client::{TlsClient, TlsClientPem};
pub use handshake_fault::HandshakeFault;
pub use pem::{TlsError, TlsInput};
