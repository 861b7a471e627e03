//! A tonic server that admits three requests per minute and client, whichever service they ask. Its service is that of health checks.
//!
//! `cargo run -p tollgate-tower --features tonic --example tonic_server`, then
//! `grpcurl -plaintext -proto health.proto 127.0.0.1:50051 grpc.health.v1.Health/Check`

use tokio::net::TcpListener;
use tollgate::{Agent, Rule};
use tollgate_tower::RateLimitLayer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    serve(TcpListener::bind("127.0.0.1:50051").await?).await
}

pub(crate) async fn serve(listener: TcpListener) -> Result<(), Box<dyn std::error::Error>> {
    let agent = Agent::builder().rule(Rule::per("per-client", &["ip"], "3/min".parse()?)).start()?;
    let (_reporter, health) = tonic_health::server::health_reporter();
    println!("listening on http://{}", listener.local_addr()?);
    let server = Server::builder().layer(RateLimitLayer::new(agent)).add_service(health);
    server.serve_with_incoming(TcpIncoming::from(listener)).await?;
    Ok(())
}
