//! Flags for the verification of bearer tokens.

use std::path::PathBuf;

use tollgate::Builder;
use tollgate::request::jwt::TokenRequirements;
use tollgate_command::exit::Usage;

/// Keys and required claims of bearer tokens.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct TokenArgs {
    /// JWKS file with the keys of bearer tokens; rules can then use their claims
    #[arg(long, value_name = "FILE")]
    jwks: Option<PathBuf>,
    /// Required issuer of a token (`iss`)
    #[arg(long, value_name = "TEXT")]
    jwt_issuer: Option<String>,
    /// Required audience of a token (one of its `aud`)
    #[arg(long, value_name = "TEXT")]
    jwt_audience: Option<String>,
}

impl TokenArgs {
    /// Fails if claims are required but no keys are given.
    pub(crate) fn apply(&self, builder: Builder) -> Result<Builder, Usage> {
        let requirements = TokenRequirements { issuer: self.jwt_issuer.clone(), audience: self.jwt_audience.clone() };
        match &self.jwks {
            Some(path) => Ok(builder.jwks_file(path).token_requirements(requirements)),
            None if requirements == TokenRequirements::default() => Ok(builder),
            None => Err(Usage(
                "--jwt-issuer and --jwt-audience restrict the accepted tokens, but without keys no token is accepted; give the keys with --jwks FILE".to_owned(),
            )),
        }
    }
}
