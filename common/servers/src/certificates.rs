//! Certificates for tests: an issuer, and what it signs.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;

/// Folder with the certificates of one issuer, in PEM: `ca.pem`, `server.pem` and `server.key`, and those that a test asks for.
pub struct Certificates {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Certificates {
    /// Makes an issuer of this name, and a certificate of a server on this machine.
    ///
    /// # Panics
    /// Panics if the folder for temporary files cannot be written.
    #[must_use]
    pub fn of(issuer: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, issuer);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("the folder for temporary files can be written");
        let certificates = Self { folder, issuer };
        certificates.write("ca.pem", &certificates.issuer.pem());
        certificates.issue("server", 2100);
        certificates
    }

    /// Writes a certificate that ends in this year, and its key.
    pub fn issue(&self, name: &str, year: i32) {
        self.issue_with(name, |params| params.not_after = date_time_ymd(year, 1, 1));
    }

    /// Writes a certificate with changed parameters, and its key.
    ///
    /// # Panics
    /// Panics if the parameters are not valid.
    pub fn issue_with(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        self.write(&format!("{name}.key"), &key.serialize_pem());
        self.write(&format!("{name}.pem"), &certificate.pem());
    }

    /// Replaces a file at once, as a tool for certificates does.
    ///
    /// # Panics
    /// Panics if it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        let draft = self.folder.path().join("draft");
        fs::write(&draft, text).expect("a file is written");
        fs::rename(draft, self.folder.path().join(name)).expect("a file is renamed");
    }

    /// Replaces a certificate and its key by those of another name.
    ///
    /// # Panics
    /// Panics if they cannot be read or written.
    pub fn replace(&self, name: &str, by: &str) {
        for kind in ["key", "pem"] {
            let text = fs::read_to_string(self.path(&format!("{by}.{kind}"))).expect("a file is read");
            self.write(&format!("{name}.{kind}"), &text);
        }
    }

    /// Returns the issuer's certificate.
    #[must_use]
    pub fn issuer_pem(&self) -> String {
        self.issuer.pem()
    }

    /// Returns the path of a file.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Returns the settings of a Redis with the certificate `server`, which speaks TLS on this port and with other servers, and asks
    /// clients for no certificate.
    pub(crate) fn redis_settings(&self, port: u16) -> [[String; 2]; 6] {
        let file = |name| self.text(name);
        [
            ["tls-port", &port.to_string()],
            ["tls-cert-file", &file("server.pem")],
            ["tls-key-file", &file("server.key")],
            ["tls-ca-cert-file", &file("ca.pem")],
            ["tls-auth-clients", "no"],
            ["tls-replication", "yes"],
        ]
        .map(|setting| setting.map(ToOwned::to_owned))
    }

    /// Returns the path of a file as text.
    #[must_use]
    pub fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    fn folder(&self) -> &Path {
        self.folder.path()
    }
}
