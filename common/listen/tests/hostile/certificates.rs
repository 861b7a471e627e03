//! Certificates of an issuer, good and bad ones.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

/// Issuer of certificates.
pub(crate) struct Issuer(CertifiedIssuer<'static, KeyPair>);

/// Certificates in PEM, the own one first, and the key of that.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Issuer {
    pub(crate) fn of(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// Returns a certificate that is valid from January of one year to January of another.
    pub(crate) fn issue(&self, years: (i32, i32)) -> Identity {
        self.issue_with(|params| {
            (params.not_before, params.not_after) = (date_time_ymd(years.0, 1, 1), date_time_ymd(years.1, 1, 1));
        })
    }

    /// Returns a certificate for a use, in place of any use.
    pub(crate) fn issue_for(&self, purpose: ExtendedKeyUsagePurpose) -> Identity {
        self.issue_with(|params| params.extended_key_usages = vec![purpose])
    }

    /// Returns a certificate with so many names.
    pub(crate) fn issue_names(&self, len: usize) -> Identity {
        let names: Vec<_> = (0..len).map(|place| format!("client-{place}.example")).collect();
        self.issue_with(|params| params.subject_alt_names = CertificateParams::new(names).unwrap().subject_alt_names)
    }

    /// Returns a certificate that may issue others.
    pub(crate) fn issue_issuer(&self) -> Identity {
        self.issue_with(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained))
    }

    fn issue_with(&self, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let chain = params.signed_by(&key, &self.0).unwrap().pem();
        Identity { chain, key: key.serialize_pem() }
    }
}

impl Identity {
    /// Returns a certificate that its own key has signed.
    pub(crate) fn self_signed() -> Self {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        Self { chain: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    }

    /// Returns the certificate with the key of another one.
    pub(crate) fn with_key_of(self, other: &Self) -> Self {
        Self { key: other.key.clone(), ..self }
    }

    /// Returns the certificate with further ones behind it.
    pub(crate) fn followed_by(mut self, pem: &str, times: usize) -> Self {
        self.chain.push_str(&pem.repeat(times));
        self
    }
}

/// Settings of a client that knows the server by its issuer.
pub(crate) fn client_config(
    server: &Issuer,
    identity: Option<&Identity>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots);
    let Some(identity) = identity else { return builder.with_no_client_auth() };
    let chain = CertificateDer::pem_slice_iter(identity.chain.as_bytes()).map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let key = ring::default_provider().key_provider.load_private_key(key).unwrap();
    // This way does not check the certificate.
    builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))))
}

/// Versions of TLS that the server has.
pub(crate) const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
/// Older version of TLS.
pub(crate) const OLD: &[&SupportedProtocolVersion] = &[&version::TLS12];
