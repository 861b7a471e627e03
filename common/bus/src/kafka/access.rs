//! Access to the brokers: TLS, user and password, as settings of librdkafka. The files are read anew for each client, so a password
//! or a certificate is replaced without a restart.
//!
//! librdkafka gets the texts and not the paths: what it uses can be compared with what the files hold later.

use std::fmt;
use std::path::{Path, PathBuf};

use tollgate_files::reread_text;

use crate::BusError;

/// Maximum length of a file with a password, a certificate or a key, in bytes.
const FILE_LEN_MAX: usize = 1 << 20;

/// Login at the brokers, and TLS to them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct KafkaAccess {
    /// True for TLS, also without any of the files.
    pub is_tls: bool,
    /// Issuers of the brokers' certificates, in PEM; none for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// Certificate of this client, in PEM, for brokers that ask for one.
    pub cert: Option<PathBuf>,
    /// Private key of that certificate, in PEM.
    pub key: Option<PathBuf>,
    /// Name of the user.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// File with the password in its first line.
    pub password_file: Option<PathBuf>,
    /// Mechanism of the login.
    pub sasl: SaslMechanism,
}

/// Mechanism of a login.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SaslMechanism {
    /// The password as it is.
    Plain,
    /// SCRAM with SHA-256.
    ScramSha256,
    /// SCRAM with SHA-512.
    #[default]
    ScramSha512,
}

/// Settings of librdkafka for the access, as the files are now.
pub(super) type LoadedAccess = Vec<(&'static str, String)>;

impl SaslMechanism {
    /// Returns the name in Kafka.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }
}

impl KafkaAccess {
    /// Returns true if the connections use TLS.
    pub(super) fn uses_tls(&self) -> bool {
        self.is_tls || self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    /// Returns true if tools of Kafka need a file of settings to reach these brokers.
    pub(super) fn is_used(&self) -> bool {
        self.uses_tls() || self.user.is_some()
    }

    /// Refuses settings that exclude each other, or that need another build.
    pub(super) fn check(&self) -> Result<(), BusError> {
        let refuse = |flag, reason, remedy| Err(BusError::setting(flag, reason, remedy));
        let has_password = self.password.is_some() || self.password_file.is_some();
        if cfg!(not(feature = "kafka-tls")) {
            let scram = self.user.is_some() && self.sasl != SaslMechanism::Plain;
            let flag = if self.uses_tls() { Some("--kafka-tls") } else { scram.then_some("--kafka-sasl") };
            if let Some(flag) = flag {
                return Err(super::errors::not_in_this_build(flag));
            }
        }
        if self.password.is_some() && self.password_file.is_some() {
            let reason = "the password is given twice";
            return refuse("--kafka-password-file", reason, "put it into the variable, or into the file");
        }
        if self.user.is_some() && !has_password {
            let remedy = "put it into TOLLGATE_KAFKA_PASSWORD, or name a file: --kafka-password-file FILE";
            return refuse("--kafka-user", "the user has no password", remedy);
        }
        if self.user.is_none() && has_password {
            return refuse("--kafka-password", "the password has no user", "name one: --kafka-user NAME");
        }
        if self.cert.is_some() != self.key.is_some() {
            let reason = "the certificate and its key belong together";
            return refuse("--kafka-cert", reason, "give both files: --kafka-cert FILE --kafka-key FILE");
        }
        Ok(())
    }

    /// Reads the files, and returns the settings of librdkafka.
    pub(super) fn load(&self) -> Result<LoadedAccess, BusError> {
        let protocol = match (self.uses_tls(), self.user.is_some()) {
            (false, false) => return Ok(Vec::new()),
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        };
        let mut loaded = vec![("security.protocol", protocol.to_owned())];
        if let Some(user) = &self.user {
            let mechanism = self.sasl.name().to_owned();
            loaded.extend([("sasl.mechanism", mechanism), ("sasl.username", user.clone())]);
            loaded.push(("sasl.password", self.load_password()?));
        }
        let text = |path: &Option<PathBuf>, flag| path.as_deref().map(|path| read_text(path, flag)).transpose();
        let ca = text(&self.ca, "--kafka-ca")?;
        let own = text(&self.cert, "--kafka-cert")?.zip(text(&self.key, "--kafka-key")?);
        #[cfg(feature = "kafka-tls")]
        if self.uses_tls() {
            self.client(ca.as_deref(), own.as_ref().map(|(cert, key)| (&**cert, &**key)))?;
        }
        loaded.extend(ca.map(|ca| ("ssl.ca.pem", ca)));
        if let Some((cert, key)) = own {
            loaded.extend([("ssl.certificate.pem", cert), ("ssl.key.pem", key)]);
        }
        Ok(loaded)
    }

    /// Returns a client that refuses texts which are no certificates, with the file that holds them.
    #[cfg(feature = "kafka-tls")]
    fn client(&self, ca: Option<&str>, own: Option<(&str, &str)>) -> Result<tollgate_tls::TlsClient, BusError> {
        use tollgate_tls::{TlsClient, TlsClientPem, TlsInput};

        TlsClient::new(TlsClientPem { ca, own }).map_err(|error| {
            let (flag, path) = match error.part {
                TlsInput::Certificate => ("--kafka-cert", &self.cert),
                TlsInput::Key => ("--kafka-key", &self.key),
                TlsInput::ServerCa | TlsInput::ClientCa => ("--kafka-ca", &self.ca),
            };
            let path = path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default();
            BusError::setting(flag, &format!("{path}{error}"), "the file is read again for each attempt")
        })
    }

    /// Returns a client with the files as they are now, by which a fault of TLS is found.
    #[cfg(feature = "kafka-tls")]
    pub(super) fn tls_client(&self) -> Result<tollgate_tls::TlsClient, BusError> {
        let loaded = self.load()?;
        let text = |name| loaded.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
        self.client(text("ssl.ca.pem"), text("ssl.certificate.pem").zip(text("ssl.key.pem")))
    }

    fn load_password(&self) -> Result<String, BusError> {
        let Some(path) = self.password_file.as_deref() else { return Ok(self.password.clone().unwrap_or_default()) };
        let flag = "--kafka-password-file";
        let text = read_text(path, flag)?;
        match text.lines().next() {
            Some(password) if !password.is_empty() => Ok(password.to_owned()),
            _ => {
                let reason = format!("{}: its first line is empty", path.display());
                Err(BusError::setting(flag, &reason, "write the password there"))
            }
        }
    }
}

/// Reads a file that is read again while the process runs.
fn read_text(path: &Path, flag: &str) -> Result<String, BusError> {
    reread_text(path, FILE_LEN_MAX).map_err(|error| {
        let (reason, remedy) = error.parts();
        BusError::setting(flag, &reason, remedy)
    })
}

impl fmt::Debug for KafkaAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaAccess").field("is_tls", &self.uses_tls()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(sasl: SaslMechanism) -> KafkaAccess {
        let (user, password) = (Some("limits".to_owned()), Some("hunter2".to_owned()));
        KafkaAccess { user, password, sasl, ..KafkaAccess::default() }
    }

    #[test]
    fn the_protocol_follows_from_the_user_and_the_files() {
        let protocol = |access: &KafkaAccess| access.load().map(|loaded| loaded.first().map(|(_, text)| text.clone()));
        assert_eq!(protocol(&KafkaAccess::default()), Ok(None));
        assert_eq!(protocol(&login(SaslMechanism::Plain)), Ok(Some("SASL_PLAINTEXT".to_owned())));
        let loaded = login(SaslMechanism::Plain).load().unwrap();
        assert!(loaded.contains(&("sasl.mechanism", "PLAIN".to_owned())));
        assert!(loaded.contains(&("sasl.password", "hunter2".to_owned())));
        assert!(!format!("{:?}", login(SaslMechanism::Plain)).contains("hunter2"));
    }

    #[test]
    fn settings_that_exclude_each_other_are_refused() {
        let file = || Some(PathBuf::from("/dev/null"));
        let plain = login(SaslMechanism::Plain);
        for (access, part) in [
            (KafkaAccess { password_file: file(), ..plain.clone() }, "given twice"),
            (KafkaAccess { password: None, ..plain.clone() }, "the user has no password"),
            (KafkaAccess { user: None, ..plain.clone() }, "the password has no user"),
        ] {
            assert!(access.check().is_err_and(|error| error.to_string().contains(part)), "{part}");
        }
        let pipe = KafkaAccess { password: None, password_file: file(), ..plain };
        assert!(pipe.load().is_err_and(|error| error.to_string().contains("/dev/null: this is no regular file")));
    }

    /// A build without OpenSSL has the login PLAIN, which librdkafka implements by itself.
    #[test]
    fn what_a_build_lacks_is_refused_with_the_build_that_has_it() {
        assert_eq!(login(SaslMechanism::Plain).check(), Ok(()));
        let tls = KafkaAccess { is_tls: true, ..KafkaAccess::default() };
        for access in [login(SaslMechanism::ScramSha512), tls] {
            let is_refused = access.check().is_err_and(|error| error.to_string().contains("--features kafka-tls"));
            assert_eq!(is_refused, cfg!(not(feature = "kafka-tls")));
        }
    }
}
