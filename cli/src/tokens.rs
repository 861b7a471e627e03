//! Flags for the verification of bearer tokens.

use std::path::PathBuf;

use tollgate::Builder;

use crate::exit::Usage;

/// Keys and required claims of bearer tokens.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// JWKS file with the keys of bearer tokens; rules can then use their claims
    #[arg(long, value_name = "FILE", env = "TOLLGATE_JWKS", hide_env_values = true)]
    jwks: Option<PathBuf>,
    /// Required issuer of a token (`iss`)
    #[arg(long, value_name = "TEXT", env = "TOLLGATE_JWT_ISSUER", hide_env_values = true)]
    jwt_issuer: Option<String>,
    /// Required audience of a token (one of its `aud`)
    #[arg(long, value_name = "TEXT", env = "TOLLGATE_JWT_AUDIENCE", hide_env_values = true)]
    jwt_audience: Option<String>,
}

impl TokenArgs {
    /// Applies the flags to an agent.
    ///
    /// # Errors
    /// If claims are required but no keys are given.
    pub(crate) fn apply(&self, mut builder: Builder) -> Result<Builder, Usage> {
        if self.jwks.is_none() && (self.jwt_issuer.is_some() || self.jwt_audience.is_some()) {
            let text = "--jwt-issuer and --jwt-audience restrict the accepted tokens, but without keys no token is accepted; give the keys with --jwks FILE";
            return Err(Usage(text.to_owned()));
        }
        if let Some(path) = &self.jwks {
            builder = builder.jwks_file(path);
        }
        if let Some(issuer) = &self.jwt_issuer {
            builder = builder.jwt_issuer(issuer);
        }
        if let Some(audience) = &self.jwt_audience {
            builder = builder.jwt_audience(audience);
        }
        Ok(builder)
    }
}
