//! An axum server that admits three requests per minute and client.
//!
//! `cargo run -p tollgate-tower --features axum --example axum_server`, then `curl -i http://127.0.0.1:3000/search`

use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tollgate::{Agent, Rule};
use tollgate_tower::RateLimitLayer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve(TcpListener::bind("127.0.0.1:3000").await?).await
}

pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder().rule(Rule::per("per-client", &["ip"], "3/min".parse()?)).start()?;
    let limited = Router::new().route("/search", get(|| async { "found\n" })).layer(RateLimitLayer::new(agent));
    // Routes that are added after the layer have no limit.
    let app = limited.route("/healthz", get(|| async { "ok\n" }));
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
