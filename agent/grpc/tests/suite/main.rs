//! The gRPC surface behind real gateways.

mod envoy;
