//! Tower layer that limits the requests of a server by a Tollgate agent, for axum, tonic and every other server of tower's services.
//!
//! ```no_run
//! use axum::{Router, routing::get};
//! use tollgate::{Agent, Rule};
//! use tollgate_tower::RateLimitLayer;
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let agent = Agent::builder().rule(Rule::per("per-client", &["ip"], "100/min".parse()?)).start()?;
//! let app = Router::new().route("/search", get(|| async { "found" })).layer(RateLimitLayer::new(agent));
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<std::net::SocketAddr>()).await?;
//! # Ok(()) }
//! ```
//!
//! * The rules choose the descriptors of a request, as they do for the HTTP service of an agent. [`RateLimitLayer::map_call`]
//!   adds the values that only the server knows.
//! * An admitted request gets the headers of [`tollgate::http_response::headers`] on its response. Under a `leaky_bucket`, it waits for its
//!   turn before the server sees it.
//! * A denied request is answered as `/check` of the HTTP service answers it; a gRPC request with `RESOURCE_EXHAUSTED`, or
//!   with `PERMISSION_DENIED` if no retry passes.
//! * Slots of a rule with `concurrency` are free when the body of the response has ended or is dropped. The body of an upgraded connection,
//!   such as a WebSocket, ends with the upgrade.
//!
//! | feature | adds |
//! | --- | --- |
//! | `axum` | the client's address from `axum::extract::ConnectInfo<SocketAddr>`, and whole paths in nested routers |
//! | `tonic` | the client's address from tonic's server, also under TLS |
//!
//! Other servers add the address to the extensions of a request as a [`SocketAddr`](std::net::SocketAddr).
// Modules are listed in the order of their layers: each one imports only the modules before it, and a test checks this.

mod connection;
mod denied_response;
mod request_limits;
mod response_body;
mod response_future;
mod service;

pub use response_body::ResponseBody;
pub use response_future::ResponseFuture;
pub use service::{RateLimit, RateLimitLayer};
