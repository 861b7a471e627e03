//! Settings of the routes.

use tollgate_listen::Tls;

use crate::body::BODY_BYTES_MAX_DEFAULT;
use crate::gateway::Gateway;
use crate::operator::OperatorToken;

/// Settings of the routes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpSettings {
    /// Gateway whose headers are believed.
    pub gateway: Gateway,
    /// Token of operators on other machines; without one, only peers on the agent's own machine may change counts or limits.
    pub token: Option<OperatorToken>,
    /// Maximum length of the body of a request, in bytes.
    pub body_bytes_max: u32,
    /// TLS of the sockets, whose certificate `/healthz` reports.
    pub tls: Option<Tls>,
}

impl HttpSettings {
    /// Returns the default settings behind a gateway.
    #[must_use]
    pub fn behind(gateway: Gateway) -> Self {
        Self { gateway, ..Self::default() }
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self { gateway: Gateway::default(), token: None, body_bytes_max: BODY_BYTES_MAX_DEFAULT, tls: None }
    }
}
