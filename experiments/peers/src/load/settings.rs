//! Command line of the load.

use std::net::SocketAddr;

use clap::{Parser, ValueEnum};

/// Protocol of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Envoy's rate limit service over gRPC
    Rls,
    /// A POST over HTTP/1.1
    Http,
}

/// Sends calls of many callers to a rate limit server, and prints latencies and CPU time of its processes as JSON
#[derive(Parser)]
pub struct Settings {
    #[arg(long, value_enum)]
    pub protocol: Protocol,
    #[arg(long, value_name = "HOST:PORT")]
    pub address: SocketAddr,
    /// Domain of the requests over gRPC
    #[arg(long, default_value = "small")]
    pub domain: String,
    /// Path of the requests over HTTP
    #[arg(long, default_value = "/check")]
    pub path: String,
    /// Body of the requests over HTTP, in which KEY and TENANT stand for those of the caller
    #[arg(long, default_value = "")]
    pub body: String,
    /// Part of the body of a denial over HTTP, beside the status 429
    #[arg(long, default_value = "\"allowed\":false")]
    pub denial: String,
    /// Descriptors of a request over gRPC: the key, or the key and the tenant
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub descriptors: u8,
    /// Calls per second by a Poisson process; without it, each connection has --in-flight calls at any time
    #[arg(long)]
    pub rate: Option<f64>,
    #[arg(long, default_value_t = 16)]
    pub in_flight: usize,
    #[arg(long, default_value_t = 4)]
    pub connections: usize,
    #[arg(long, default_value_t = 10_000)]
    pub keys: u32,
    /// Exponent of the calls of the keys by Zipf's law
    #[arg(long, default_value_t = 1.1)]
    pub skew: f64,
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Seconds before the measurement
    #[arg(long, default_value_t = 1.0)]
    pub warm_up: f64,
    /// Seed of the callers and of the instants
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Processes whose CPU time is measured
    #[arg(long = "process", value_name = "ID")]
    pub processes: Vec<u32>,
}
