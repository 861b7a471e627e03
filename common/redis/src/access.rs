//! Access to the servers: user, password, and the files of TLS, which are read anew for each connection. So a password or a
//! certificate is replaced without a restart.

use std::fmt;
use std::path::{Path, PathBuf};

use redis::RedisConnectionInfo;
use tollgate_files::reread_text;

/// Maximum length of a file with a password, a certificate or a key, in bytes.
const FILE_LEN_MAX: usize = 1 << 20;

/// User and password.
#[derive(Clone, Default)]
pub struct RedisCredentials {
    /// Name of the user; none for the user `default`.
    pub user: Option<String>,
    /// Password.
    pub password: Option<String>,
    /// File with the password in its first line; an empty one is none.
    pub password_file: Option<PathBuf>,
}

/// Files of TLS, in PEM.
#[derive(Clone, Debug, Default)]
pub struct RedisTlsFiles {
    /// Issuers of the servers' certificates; none for those that the system trusts.
    pub ca: Option<PathBuf>,
    /// Certificate of this client, for servers that ask for one.
    pub cert: Option<PathBuf>,
    /// Private key of that certificate.
    pub key: Option<PathBuf>,
}

impl RedisCredentials {
    /// Returns what the library needs to log in. The file is read.
    ///
    /// # Errors
    /// The text for the operator, if the file cannot be read.
    pub(crate) fn login(&self, database: i64) -> Result<RedisConnectionInfo, String> {
        let mut info = RedisConnectionInfo::default().set_db(database);
        let of_file = self.password_file.as_deref().map(read_text).transpose()?;
        let of_file = of_file.as_deref().map(|text| text.lines().next().unwrap_or_default());
        let password = of_file.or(self.password.as_deref()).filter(|password| !password.is_empty());
        if let Some(password) = password {
            info = info.set_password(password);
        }
        match (&self.user, password, &self.password_file) {
            (Some(user), Some(_), _) => Ok(info.set_username(user)),
            // Without a password, the user `default` would be used.
            (Some(_), None, Some(file)) => {
                Err(format!("{}: its first line is empty; write the password there", file.display()))
            }
            (Some(_), None, None) => Err("the user of Redis has no password".to_owned()),
            (None, ..) => Ok(info),
        }
    }
}

impl fmt::Debug for RedisCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCredentials").finish_non_exhaustive()
    }
}

impl RedisTlsFiles {
    /// Returns true if a file is named.
    pub(crate) fn is_used(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    /// Reads the files.
    ///
    /// # Errors
    /// The text for the operator, with the file that cannot be used.
    #[cfg(feature = "tls")]
    pub(crate) fn load(&self) -> Result<tollgate_tls::TlsClient, String> {
        use tollgate_tls::{TlsClient, TlsClientPem, TlsInput};

        let text = |path: &Option<PathBuf>| path.as_deref().map(read_text).transpose();
        let (ca, cert, key) = (text(&self.ca)?, text(&self.cert)?, text(&self.key)?);
        let pem = TlsClientPem { ca: ca.as_deref(), own: cert.as_deref().zip(key.as_deref()) };
        TlsClient::new(pem).map_err(|error| {
            let path = match error.part {
                TlsInput::Certificate => &self.cert,
                TlsInput::Key => &self.key,
                TlsInput::ServerCa | TlsInput::ClientCa => &self.ca,
            };
            path.as_ref().map_or_else(|| error.to_string(), |path| format!("{}: {error}", path.display()))
        })
    }
}

/// Reads a file that is read again for each connection.
fn read_text(path: &Path) -> Result<String, String> {
    reread_text(path, FILE_LEN_MAX).map_err(|error| error.to_string())
}
