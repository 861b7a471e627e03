//! Flags of TLS, and the reload of their files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use tokio::time::interval;
use tollgate::FileWatch;
use tollgate_command::exit::Usage;
use tollgate_files::read_text;
use tollgate_listen::{CertificateWarning, Certificates, Tls, TlsPem};
use tollgate_tls::TlsInput;

/// Maximum length of a file with certificates or a key, in bytes.
pub(crate) const FILE_LEN_MAX: usize = 1 << 20;
/// Time between two looks at the end of the certificate.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone, clap::Args)]
pub(crate) struct TlsArgs {
    /// Certificate of the server and those of its issuers, in PEM; all TCP addresses then speak TLS only
    #[arg(id = "tls_cert", long = "tls-cert", value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(id = "tls_key", long = "tls-key", value_name = "FILE")]
    key: Option<PathBuf>,
    /// Issuers of client certificates, in PEM; clients without a certificate of theirs are then refused
    #[arg(id = "tls_client_ca", long = "tls-client-ca", value_name = "FILE")]
    client_ca: Option<PathBuf>,
}

/// Files of the certificates that are in use.
#[derive(Clone)]
struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

impl TlsArgs {
    /// Returns true if only clients with a certificate may connect.
    pub(crate) fn asks_for_certificates(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Reads the certificates, if there are any, and the watch that reads them again.
    pub(crate) fn load(&self) -> anyhow::Result<Option<(Tls, FileWatch)>> {
        let client_ca = self.client_ca.clone();
        let files = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => {
                TlsFiles { certificate: certificate.clone(), key: key.clone(), client_ca }
            }
            (Some(_), None) => {
                bail!(Usage("--tls-cert needs the key of the certificate; add --tls-key FILE".to_owned()))
            }
            (None, Some(_)) => bail!(Usage("--tls-key needs its certificate; add --tls-cert FILE".to_owned())),
            (None, None) if client_ca.is_some() => bail!(Usage(
                "--tls-client-ca needs a certificate of the server; add --tls-cert FILE and --tls-key FILE".to_owned()
            )),
            (None, None) => return Ok(None),
        };
        let watch = FileWatch::new(files.paths(), FILE_LEN_MAX);
        let tls = Tls::new(&files.certificate.display().to_string(), files.read()?);
        let reloaded = tls.clone();
        let watch = watch.on_change(move || match files.read() {
            Ok(certificates) => {
                tracing::info!(file = %files.certificate.display(), "TLS certificates reloaded, for new connections");
                reloaded.replace(certificates);
            }
            Err(Usage(why)) => tracing::error!(
                "TLS certificates rejected, the present ones stay in use; correct the file, it is reloaded automatically: {why}"
            ),
        });
        Ok(Some((tls, watch)))
    }
}

/// Reports each change of the end of the certificate once, as long as the process runs.
pub(crate) async fn report_ends(tls: Tls) {
    let (mut looks, mut reported) = (interval(LOOK_INTERVAL), None);
    loop {
        looks.tick().await;
        let warning = tls.warning();
        let told = warning.as_ref().map(|warning| (warning.ends_s, warning.has_ended));
        match warning {
            _ if told == reported => {}
            Some(CertificateWarning { file, why, .. }) => tracing::warn!(%file, "{why}"),
            None => tracing::info!("the certificate does not end soon any more"),
        }
        reported = told;
    }
}

impl TlsFiles {
    fn paths(&self) -> Vec<PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_ca).cloned().collect()
    }

    /// Reads the files. A certificate that clients refuse is reported.
    fn read(&self) -> Result<Certificates, Usage> {
        let text = |path: &Path| read_text(path, FILE_LEN_MAX).map_err(|error| Usage(error.to_string()));
        let (certificate, key) = (text(&self.certificate)?, text(&self.key)?);
        let client_ca = self.client_ca.as_deref().map(text).transpose()?;
        let pem = TlsPem { certificate: &certificate, key: &key, client_ca: client_ca.as_deref() };
        let certificates = Certificates::parse(pem).map_err(|error| {
            let path = match error.part {
                TlsInput::Certificate => &self.certificate,
                TlsInput::Key => &self.key,
                TlsInput::ClientCa | TlsInput::ServerCa => self.client_ca.as_ref().unwrap_or(&self.certificate),
            };
            Usage(format!("{}: {error}", path.display()))
        })?;
        if let Some(warning) = &certificates.warning {
            tracing::warn!("{}: {warning}", self.certificate.display());
        }
        Ok(certificates)
    }
}
