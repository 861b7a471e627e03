//! Flags of the TLS with which commands ask a running process.

use std::path::{Path, PathBuf};

use tollgate_command::exit::Usage;
use tollgate_files::read_text;
use tollgate_tls::{TlsClient, TlsClientPem, TlsInput};

use crate::tls::FILE_LEN_MAX;

#[derive(Clone, Default, clap::Args)]
pub(crate) struct TlsClientArgs {
    /// Issuers of its certificate, in PEM, to ask over TLS
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Certificate with which to ask, in PEM, if it asks for one (--tls-client-ca)
    #[arg(long, global = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM
    #[arg(long, global = true, value_name = "FILE")]
    key: Option<PathBuf>,
}

impl TlsClientArgs {
    /// Returns true if the process is asked over TLS.
    pub(crate) fn is_used(&self) -> bool {
        self.ca.is_some()
    }

    /// Reads the files; none without the issuers of the server's certificate.
    ///
    /// # Errors
    /// If a flag lacks another one, or a file cannot be used.
    pub(super) fn load(&self) -> Result<Option<TlsClient>, Usage> {
        let usage = |why: &str| Usage(why.to_owned());
        let own = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(_), None) => return Err(usage("--cert needs the key of the certificate; add --key FILE")),
            (None, Some(_)) => return Err(usage("--key needs its certificate; add --cert FILE")),
        };
        let Some(ca) = &self.ca else {
            let is_alone = own.is_some();
            let why = "--cert is for TLS, which needs the issuers of the server's certificate; add --ca FILE";
            return if is_alone { Err(usage(why)) } else { Ok(None) };
        };
        let text = |path: &Path| read_text(path, FILE_LEN_MAX).map_err(|error| Usage(error.to_string()));
        let issuers = text(ca)?;
        let texts = own.map(|(certificate, key)| Ok::<_, Usage>((text(certificate)?, text(key)?))).transpose()?;
        let pem =
            TlsClientPem { ca: Some(&issuers), own: texts.as_ref().map(|(certificate, key)| (&**certificate, &**key)) };
        let client = TlsClient::new(pem).map_err(|error| {
            let path = match (error.part, own) {
                (TlsInput::Certificate, Some((certificate, _))) => certificate,
                (TlsInput::Key, Some((_, key))) => key,
                _ => ca,
            };
            Usage(format!("{}: {error}", path.display()))
        })?;
        Ok(Some(client))
    }
}
