//! Slow and silent clients, and floods of connections and of requests.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::exchange::{END_WAIT, HostileRequest, Sending, Target, answer};

/// Number of connections, or of requests on one connection, of a flood.
const FLOOD: usize = 500;

pub(crate) fn requests() -> Vec<HostileRequest> {
    let silent = |name, bytes: &str| HostileRequest::new(name, bytes, 0).closed().slow();
    let good = "GET /check HTTP/1.1\r\nhost: t\r\nx-api-key: k1\r\n\r\n";
    vec![
        silent("a client that sends nothing", ""),
        silent("a client that connects and leaves", "").sent(Sending::Ended),
        silent("half of a first line", "GET /che"),
        silent("half of a header", "GET /check HTTP/1.1\r\nhost: t\r\nx-api-ke"),
        silent("half of a head, and an end", "GET /check HTTP/1.1\r\nhost: t\r\n").sent(Sending::Ended),
        silent("a head byte by byte", good).sent(Sending::Dripping(good.len())),
        silent("lines without a request", "\r\n\r\n"),
        HostileRequest::new("half of a preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\n", 400).slow(),
        HostileRequest::new("bad requests behind each other", "GET\r\n\r\n".repeat(FLOOD), 400),
        HostileRequest::new("a bad request behind a good one", format!("{good}\0\0\r\n\r\n"), 200).charging(1),
    ]
}

/// Opens connections that send half a request each. The agent closes all of them.
pub(crate) async fn half_requests(target: &Target) -> Result<(), String> {
    let mut streams = Vec::new();
    for _ in 0..FLOOD {
        let mut stream = target.connect().await;
        stream.write_all(b"GET /check HTTP/1.1\r\nx-api-key: k1\r\n").await.map_err(|error| error.to_string())?;
        streams.push(stream);
    }
    for stream in &mut streams {
        if let Some((status, _)) = answer(stream).await {
            return Err(format!("half a request: {status}"));
        }
    }
    Ok(())
}

/// Asks for long answers without end, and takes none of them. The agent keeps none, and closes the connection.
pub(crate) async fn unread_answers(target: &Target) -> Result<(), String> {
    let mut stream = target.connect().await;
    let request = "GET /openapi.yaml HTTP/1.1\r\nhost: t\r\n\r\n".repeat(FLOOD);
    let ask = async { while stream.write_all(request.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(END_WAIT, ask).await.map_err(|_| "a client that takes no answers stays".to_owned())
}

/// Sends a request with two lengths, of which the one hides a second request: a gateway that goes by the other one would let its
/// client ask the agent. The connection ends with the first answer (RFC 9112, 6.1).
pub(crate) async fn hidden_request(target: &Target) -> Result<(), String> {
    let mut stream = target.connect().await;
    let hidden = "GET /check HTTP/1.1\r\nhost: t\r\nx-api-key: k1\r\n\r\n";
    let head = format!("POST /check HTTP/1.1\r\nhost: t\r\ncontent-length: {}", hidden.len() + 5);
    let request = format!("{head}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())?;
    let mut received = Vec::new();
    let ended = tokio::time::timeout(END_WAIT, stream.read_to_end(&mut received)).await;
    let answers = received.windows(9).filter(|start| start == b"HTTP/1.1 ").count();
    if answers == 1 && ended.is_ok() { Ok(()) } else { Err(format!("{answers} answers to a hidden request")) }
}
