//! Causes of a failed handshake, as an operator must tell them apart.

use std::io;

use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

/// Cause of a failed handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// The server's certificate is of none of the trusted issuers.
    UnknownIssuer,
    /// The server's certificate has ended.
    Expired,
    /// The server's certificate is not valid yet.
    NotValidYet,
    /// The server's certificate is for other names: these, if they are known.
    OtherName(Vec<String>),
    /// The server speaks no TLS.
    NoTls,
    /// The server wants a certificate of the client, or another one.
    ClientCertificate,
    /// Another cause.
    Other(String),
}

impl HandshakeFault {
    /// Returns the cause of this error; none if it is not one of TLS.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        let fault = error.get_ref()?.downcast_ref::<Error>()?;
        Some(match fault {
            Error::InvalidCertificate(fault) => Self::of_certificate(fault),
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                Self::NoTls
            }
            Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::UnknownCA
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
                | AlertDescription::CertificateRevoked
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::AccessDenied,
            ) => Self::ClientCertificate,
            other => Self::Other(other.to_string()),
        })
    }

    fn of_certificate(fault: &CertificateError) -> Self {
        match fault {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::UnknownIssuer,
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotValidYet,
            CertificateError::NotValidForName => Self::OtherName(Vec::new()),
            CertificateError::NotValidForNameContext { presented, .. } => Self::OtherName(presented.clone()),
            other => Self::Other(Error::InvalidCertificate(other.clone()).to_string()),
        }
    }
}
