//! Sockets of agents and aggregators: TCP, TLS or Unix, with caps on connections, and a graceful end.
//!
//! A client that connects and sends nothing, or sends half a request, occupies a descriptor and memory. Many of them would keep
//! gateways out. So a request must be complete soon, and at the cap the longest idle connections make room for new ones:
//!
//! * `Connections` counts those of a process that are open, and chooses the ones that make room.
//! * `Connection` closes itself when it is too slow or idle for too long.
//! * `Stream` makes the handshake of [`Tls`].
//! * [`Listener`] accepts for a [`ListenGroup`]. [`serve`] ends it.
//!
//! Modules are listed in the order of their layers: each one imports only the modules before it, and a test checks this.

mod address;
mod peer;
mod listen_settings;
mod connections;
mod validity;
mod tls;
mod stream;
mod connection;
mod group;
mod listener;
mod serve;

pub use address::Address;
pub use group::ListenGroup;
pub use listen_settings::{
    CONNECTIONS_MAX_DEFAULT, HEADER_BYTES_MAX_DEFAULT, HEADER_BYTES_MAX_MIN, HEADER_TIMEOUT_DEFAULT,
    IDLE_TIMEOUT_DEFAULT, ListenSettings,
};
pub use listener::Listener;
pub use peer::Peer;
pub use serve::{DRAIN_WAIT, serve};
pub use tls::{Certificates, Tls, TlsPem};
pub use validity::CertificateWarning;
