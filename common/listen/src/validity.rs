//! Validity of the certificate of a server, told by the library that verifies certificates, so that no other parser is needed.

use std::sync::Arc;

use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{CertificateError, Error, RootCertStore};

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;
/// Time before the end of a certificate from which it is reported, in s.
const SOON_S: u64 = 7 * SECONDS_PER_DAY;
/// Begin of the year 10000 in Unix seconds. No certificate can end later.
const YEAR_10000_S: u64 = 253_402_300_800;

/// End of a certificate that clients refuse, or will refuse soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateWarning {
    /// File of the certificate.
    pub file: String,
    /// End of its validity, in Unix seconds.
    pub ends_s: u64,
    /// True if the end has passed.
    pub has_ended: bool,
    /// Reason and remedy.
    pub why: String,
}

/// Returns the end of the first of these certificates that ends, in Unix seconds; none if they cannot be read.
pub(crate) fn ends_s(chain: &[CertificateDer<'_>]) -> Option<u64> {
    let ends_s = |certificate| match verify(certificate, at(YEAR_10000_S))? {
        CertificateError::ExpiredContext { not_after, .. } => Some(not_after.as_secs()),
        _ => None,
    };
    chain.iter().filter_map(ends_s).min()
}

/// Returns the reason if a certificate is not valid yet.
pub(crate) fn not_yet_valid(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<String> {
    let CertificateError::NotValidYetContext { not_before, .. } = verify(certificate, now)? else { return None };
    let days = not_before.as_secs().saturating_sub(now.as_secs()).div_ceil(SECONDS_PER_DAY);
    Some(format!(
        "the certificate becomes valid in {days} days, so clients refuse it; check the clock, or use another one"
    ))
}

/// Returns the warning about certificates of a file with this end; none if they last for more than [`SOON_S`].
pub(crate) fn warning(file: &str, ends_s: u64, now_s: u64) -> Option<CertificateWarning> {
    let days = |s: u64| s.div_ceil(SECONDS_PER_DAY);
    let has_ended = now_s > ends_s;
    let why = if has_ended {
        format!("the certificate expired {} days ago, so clients refuse it; renew it", days(now_s - ends_s))
    } else if ends_s - now_s <= SOON_S {
        format!("the certificate ends in {} days, and clients refuse it then; renew it", days(ends_s - now_s))
    } else {
        return None;
    };
    let why = why + ": its file is read again when it changes";
    Some(CertificateWarning { file: file.to_owned(), ends_s, has_ended, why })
}

/// Returns the fault of a certificate at this time. The library checks the time before the issuer, so the certificate itself serves as
/// one.
fn verify(certificate: &CertificateDer<'_>, now: UnixTime) -> Option<CertificateError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone().into_owned()).ok()?;
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().ok()?;
    let name = ServerName::try_from("localhost").ok()?;
    match verifier.verify_server_cert(certificate, &[], &name, &[], now) {
        Err(Error::InvalidCertificate(fault)) => Some(fault),
        _ => None,
    }
}

fn at(unix_s: u64) -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(unix_s))
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    const DAY_S: u64 = SECONDS_PER_DAY;

    fn certificate(is_ca: bool, from_year: i32, to_year: i32) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        (params.not_before, params.not_after) = (date_time_ymd(from_year, 1, 1), date_time_ymd(to_year, 1, 1));
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().clone()
    }

    #[test]
    fn the_end_is_that_of_the_certificate_that_ends_first() {
        let (long, short) = (certificate(false, 2000, 2100), certificate(true, 2000, 2050));
        let (of_2100, of_2050) = (4_102_444_800, 2_524_608_000);
        for (chain, expected) in [
            (from_ref(&long), Some(of_2100)),
            (from_ref(&short), Some(of_2050)),
            (&[long.clone(), short.clone()], Some(of_2050)),
            (&[short.clone(), long.clone()], Some(of_2050)),
            (&[CertificateDer::from(vec![1, 2, 3])], None),
            (&[], None),
        ] {
            assert_eq!(ends_s(chain), expected);
        }
        assert_eq!(ends_s(&[certificate(false, 2000, 9999)]), Some(253_370_764_800));
    }

    #[test]
    fn a_certificate_of_the_future_is_not_valid_yet() {
        let certificate = certificate(false, 2050, 2100);
        let told = not_yet_valid(&certificate, at(2_524_608_000 - DAY_S - 1));
        assert!(told.is_some_and(|told| told.contains("becomes valid in 2 days")));
        assert_eq!(not_yet_valid(&certificate, at(2_524_608_000)), None);
        assert_eq!(not_yet_valid(&certificate, at(4_102_444_801)), None, "its end is told by the warning");
    }

    #[test]
    fn a_warning_begins_a_week_before_the_end() {
        let now_s = 1_000 * DAY_S;
        for (ends_s, expected) in [
            (now_s + 7 * DAY_S + 1, None),
            (now_s + 7 * DAY_S, Some((false, "ends in 7 days"))),
            (now_s + 1, Some((false, "ends in 1 days"))),
            (now_s, Some((false, "ends in 0 days"))),
            (now_s - 1, Some((true, "expired 1 days ago"))),
            (now_s - 9 * DAY_S, Some((true, "expired 9 days ago"))),
        ] {
            let told = warning("server.pem", ends_s, now_s);
            let shown = told.as_ref().map(|warning| (warning.has_ended, &*warning.why));
            match (shown, expected) {
                (None, None) => {}
                (Some((has_ended, why)), Some((expected, text))) => {
                    assert!(has_ended == expected && why.contains(text) && why.contains("renew it"), "{why}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}
