//! By whose keys the claims of bearer tokens are believed.

use std::path::PathBuf;

use tollgate::Builder;

use crate::exit::Usage;

/// Whose tokens are believed.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// Keys of bearer tokens, as JWKS; rules may then use their claims
    #[arg(long, value_name = "FILE", env = "TOLLGATE_JWKS", hide_env_values = true)]
    jwks: Option<PathBuf>,
    /// Who must have made a token, its `iss`
    #[arg(long, value_name = "TEXT", env = "TOLLGATE_JWT_ISSUER", hide_env_values = true)]
    jwt_issuer: Option<String>,
    /// For whom a token must be, one of its `aud`
    #[arg(long, value_name = "TEXT", env = "TOLLGATE_JWT_AUDIENCE", hide_env_values = true)]
    jwt_audience: Option<String>,
}

impl TokenArgs {
    /// Has an agent believe them.
    ///
    /// # Errors
    /// When it is said what tokens must be, and not how to tell.
    pub(crate) fn apply(&self, mut builder: Builder) -> Result<Builder, Usage> {
        if self.jwks.is_none() && (self.jwt_issuer.is_some() || self.jwt_audience.is_some()) {
            let text = "--jwt-issuer and --jwt-audience narrow down whose tokens are believed, and without keys none are; give the keys with --jwks FILE";
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
