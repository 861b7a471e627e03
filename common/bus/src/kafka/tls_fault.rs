//! Cause of a failed handshake with a broker, found by a handshake of our own: librdkafka says of any certificate only that it could
//! not be verified.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead as _, ReadBuf};
use tokio::net::TcpStream;
use tollgate_tls::{HandshakeFault, TlsClient};

use super::access::KafkaAccess;

/// Time for the handshake, and then for a broker's refusal of the client's certificate.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(1);
const REFUSAL_WAIT: Duration = Duration::from_millis(200);

/// Reason and remedy of a handshake that fails.
pub(super) type TlsFault = (String, &'static str);

/// Returns why the handshake with a broker fails; nothing if it does not, or no connection is made.
pub(super) fn find(node: &str, access: &KafkaAccess) -> Option<TlsFault> {
    let client = access.tls_client().ok()?;
    let find = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
        runtime.block_on(async { tokio::time::timeout(HANDSHAKE_WAIT, handshake(node, &client)).await.ok()? })
    };
    // The caller's thread may belong to a runtime already.
    let fault = std::thread::scope(|scope| scope.spawn(find).join().ok()?);
    let fault = match fault {
        None if client.lacks_certificate() => Some(HandshakeFault::ClientCertificate),
        fault => fault,
    };
    fault.map(describe)
}

async fn handshake(node: &str, client: &TlsClient) -> Option<HandshakeFault> {
    let (host, _) = node.rsplit_once(':')?;
    let mut stream = match client.connect(host, TcpStream::connect(node).await.ok()?).await {
        Ok(stream) => stream,
        Err(error) => return HandshakeFault::of(&error),
    };
    // With TLS 1.3, a broker refuses the client's certificate after the handshake.
    let mut byte = [0];
    let mut read = ReadBuf::new(&mut byte);
    let refusal = poll_fn(|context| match Pin::new(&mut stream).poll_read(context, &mut read) {
        Poll::Ready(Err(error)) => Poll::Ready(HandshakeFault::of(&error)),
        Poll::Ready(Ok(())) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    tokio::time::timeout(REFUSAL_WAIT, refusal).await.ok()?
}

fn describe(fault: HandshakeFault) -> TlsFault {
    match fault {
        HandshakeFault::UnknownIssuer => (
            "its certificate is of an unknown issuer".to_owned(),
            "name a file with the issuers of the brokers' certificates: --kafka-ca FILE, in PEM; or install them on this machine",
        ),
        HandshakeFault::Expired => (
            "its certificate has ended".to_owned(),
            "renew the certificate of the broker, or correct the clock of this machine",
        ),
        HandshakeFault::NotValidYet => (
            "its certificate is not valid yet".to_owned(),
            "correct the clock of this machine, or renew the certificate of the broker",
        ),
        HandshakeFault::OtherName(names) => (
            format!("its certificate is for other names: {}", names.join(", ")),
            "name brokers as their certificates do, in --kafka and in advertised.listeners; or add this name to the certificate (subjectAltName)",
        ),
        HandshakeFault::ClientCertificate => (
            "it wants a certificate of this client, or another one".to_owned(),
            "give a certificate that the brokers' issuers have signed: --kafka-cert FILE and --kafka-key FILE; or set ssl.client.auth=none at the brokers",
        ),
        HandshakeFault::NoTls => (
            "it speaks no TLS".to_owned(),
            "give the port of a listener with TLS; or leave out --kafka-tls and the files of TLS, if the brokers have none",
        ),
        HandshakeFault::Other(text) => {
            (text, "check the TLS of the broker: TLS 1.3 is spoken, and TLS 1.2 with ECDHE and AES-GCM or ChaCha20")
        }
    }
}
