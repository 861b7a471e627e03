//! Hostile requests and frames, and their ends.

use std::time::Duration;

use http::Request;

use crate::wire::bytes;

/// Maximum time for the end of a request.
pub(crate) const END_WAIT: Duration = Duration::from_mins(1);

/// Service of Envoy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    RateLimit,
    ExternalAuth,
}

/// End of a hostile request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// A status of gRPC.
    Grpc(u16),
    /// A status of HTTP, of a client that does not speak gRPC.
    Http(u16),
    /// The stream is reset, with this error of HTTP/2.
    Reset(u32),
    /// The connection ends, with this error of HTTP/2.
    GoAway(u32),
    /// The connection ends without a reason.
    Closed,
    /// The connection stays, and answers a ping.
    Alive,
    /// Headers of an answer.
    Answered,
    /// Neither an answer nor an end.
    Silent,
}

/// Request that a client should not send, and its end.
#[derive(Clone)]
pub(crate) struct HostileRequest {
    pub(crate) name: &'static str,
    pub(crate) request: Request<Vec<u8>>,
    /// True if the request never ends, so that a timeout of the agent ends it.
    pub(crate) is_slow: bool,
    pub(crate) expected: End,
    /// Units of `k1` that it validly asks for.
    pub(crate) charged: u64,
}

/// Bytes of a connection of HTTP/2, and its end.
#[derive(Clone)]
pub(crate) struct HostileFrames {
    pub(crate) name: &'static str,
    pub(crate) bytes: Vec<u8>,
    pub(crate) expected: End,
    /// True if a timeout of the agent ends it.
    pub(crate) is_slow: bool,
}

impl Service {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::RateLimit => "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
            Self::ExternalAuth => "/envoy.service.auth.v3.Authorization/Check",
        }
    }

    /// Returns a message that asks for one unit of `k1`.
    pub(crate) fn good_message(self) -> Vec<u8> {
        match self {
            Self::RateLimit => {
                let entry = [bytes(1, "api_key"), bytes(2, "k1")].concat();
                [bytes(1, "web"), bytes(2, bytes(1, entry))].concat()
            }
            Self::ExternalAuth => {
                let header = [bytes(1, "x-api-key"), bytes(2, "k1")].concat();
                let http = [bytes(2, "GET"), bytes(3, header), bytes(4, "/search")].concat();
                bytes(1, bytes(4, bytes(2, http)))
            }
        }
    }

    /// Returns a request with these bytes behind its headers.
    pub(crate) fn request(self, body: Vec<u8>) -> Request<Vec<u8>> {
        let request = Request::post(format!("http://t{}", self.path()));
        request.header("content-type", "application/grpc").header("te", "trailers").body(body).unwrap()
    }
}

impl HostileRequest {
    pub(crate) fn new(name: &'static str, request: Request<Vec<u8>>, expected: End) -> Self {
        Self { name, request, is_slow: false, expected, charged: 0 }
    }

    pub(crate) fn charging(self, charged: u64) -> Self {
        Self { charged, ..self }
    }

    pub(crate) fn slow(self) -> Self {
        Self { is_slow: true, ..self }
    }
}
