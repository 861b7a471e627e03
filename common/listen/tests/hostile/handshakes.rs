//! Handshakes with bad certificates, and hostile bytes behind a good handshake.

use std::sync::Arc;

use rcgen::ExtendedKeyUsagePurpose;
use tokio_rustls::rustls::ClientConfig;

use crate::certificates::{BOTH, Identity, Issuer, OLD, client_config};
use crate::hello::{HANDSHAKE, message, record};
use crate::target::{Attack, End, HostileClient};

const BAD_RECORD_MAC: u8 = 20;
const CERTIFICATE_UNKNOWN: u8 = 46;
const UNSUPPORTED_CERTIFICATE: u8 = 43;
const CERTIFICATE_EXPIRED: u8 = 45;
const UNKNOWN_CA: u8 = 48;
const DECODE_ERROR: u8 = 50;
const DECRYPT_ERROR: u8 = 51;
const CERTIFICATE_REQUIRED: u8 = 116;
const NO_APPLICATION_PROTOCOL: u8 = 120;

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn clients(own: &Issuer, other: &Issuer) -> Vec<HostileClient> {
    let with = |name, identity: Identity, versions, alert| {
        let config = client_config(own, Some(&identity), versions);
        HostileClient { name, attack: Attack::Handshake(config.into()), expected: End::Alert(alert), is_slow: false }
    };
    let without = |name, versions, alert| {
        let config = client_config(own, None, versions);
        HostileClient { name, attack: Attack::Handshake(config.into()), expected: End::Alert(alert), is_slow: false }
    };
    let good = own.issue((2000, 2100));
    let config: Arc<ClientConfig> = client_config(own, Some(&good), BOTH).into();
    let within = |name, bytes: &[u8], expected| HostileClient {
        name,
        attack: Attack::Within(config.clone(), bytes.to_vec()),
        expected,
        is_slow: expected == End::Closed,
    };
    let beside = |name, bytes: Vec<u8>, expected| HostileClient {
        name,
        attack: Attack::Beside(config.clone(), bytes),
        expected,
        is_slow: false,
    };
    let mut evil = client_config(own, Some(&good), BOTH);
    evil.alpn_protocols = vec![b"evil".to_vec()];
    let distrustful = client_config(other, Some(&good), BOTH);
    let old = || own.issue((2000, 2020));
    vec![
        without("no certificate", BOTH, CERTIFICATE_REQUIRED),
        without("no certificate, in TLS 1.2", OLD, CERTIFICATE_REQUIRED),
        with("an expired certificate", old(), BOTH, CERTIFICATE_EXPIRED),
        with("an expired certificate, in TLS 1.2", old(), OLD, CERTIFICATE_EXPIRED),
        with("a certificate of the next century", own.issue((2100, 2200)), BOTH, CERTIFICATE_EXPIRED),
        with("a certificate that ends before it begins", own.issue((2100, 2000)), BOTH, CERTIFICATE_EXPIRED),
        with("a certificate of another issuer", other.issue((2000, 2100)), BOTH, UNKNOWN_CA),
        with("a certificate of another issuer, in TLS 1.2", other.issue((2000, 2100)), OLD, UNKNOWN_CA),
        with("a certificate of itself", Identity::self_signed(), BOTH, UNKNOWN_CA),
        with("an expired certificate of another issuer", other.issue((2000, 2020)), BOTH, CERTIFICATE_EXPIRED),
        with(
            "a stranger behind whom the issuer stands",
            other.issue((2000, 2100)).followed_by(&own.pem(), 1),
            BOTH,
            UNKNOWN_CA,
        ),
        with(
            "a stranger behind whom a good client stands",
            other.issue((2000, 2100)).followed_by(&good.chain, 1),
            BOTH,
            UNKNOWN_CA,
        ),
        with(
            "a certificate for servers",
            own.issue_for(ExtendedKeyUsagePurpose::ServerAuth),
            BOTH,
            UNSUPPORTED_CERTIFICATE,
        ),
        with(
            "a certificate for code",
            own.issue_for(ExtendedKeyUsagePurpose::CodeSigning),
            BOTH,
            UNSUPPORTED_CERTIFICATE,
        ),
        with("a certificate that issues others", own.issue_issuer(), BOTH, CERTIFICATE_UNKNOWN),
        with(
            "a stranger with 50 certificates",
            other.issue((2000, 2100)).followed_by(&other.pem(), 50),
            BOTH,
            UNKNOWN_CA,
        ),
        with("a good certificate with another key", good.clone().with_key_of(&old()), BOTH, DECRYPT_ERROR),
        with("a good certificate with another key, in TLS 1.2", good.clone().with_key_of(&old()), OLD, DECRYPT_ERROR),
        HostileClient {
            expected: End::Closed,
            ..with("a certificate with 5,000 names", own.issue_names(5_000), BOTH, 0)
        },
        HostileClient {
            name: "an unknown protocol",
            attack: Attack::Handshake(evil.into()),
            expected: End::Alert(NO_APPLICATION_PROTOCOL),
            is_slow: false,
        },
        HostileClient {
            name: "a client that does not know the server",
            attack: Attack::Handshake(distrustful.into()),
            expected: End::Closed,
            is_slow: false,
        },
        within("no request", b"", End::Closed),
        within("half of a request", b"GET / HTTP/1.1\r\nho", End::Closed),
        within("a broken request", b"GET\r\n\r\n", End::Status(400)),
        within("a handshake within TLS", &record(HANDSHAKE, &message(1, b"")), End::Status(400)),
        within("a long path", format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)).as_bytes(), End::Status(431)),
        beside(
            "a plain request behind a handshake",
            b"GET / HTTP/1.1\r\nhost: t\r\n\r\n".to_vec(),
            End::Alert(DECODE_ERROR),
        ),
        beside("data that is not encrypted", record(23, &[0; 40]), End::Alert(BAD_RECORD_MAC)),
        beside("data that is too short to be encrypted", record(23, &[0; 4]), End::Alert(BAD_RECORD_MAC)),
        beside("empty data that is not encrypted", record(23, b""), End::Alert(BAD_RECORD_MAC)),
        beside("a record of 65,535 bytes", vec![23, 3, 3, 0xff, 0xff], End::Alert(DECODE_ERROR)),
        beside("a plain message of a handshake", record(HANDSHAKE, &message(1, &[0; 40])), End::Alert(BAD_RECORD_MAC)),
        beside("a plain alert", record(21, &[2, 40]), End::Alert(BAD_RECORD_MAC)),
        beside("an unknown kind of record", record(99, b"evil"), End::Alert(DECODE_ERROR)),
    ]
}
