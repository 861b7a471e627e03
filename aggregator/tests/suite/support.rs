//! Client of an aggregator. Each answer is compared with `openapi.yaml`.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use axum::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tollgate_servers::ApiAnswer;

use crate::contract::contract;

#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Values by names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// Serves a router on a free port until the test ends.
pub(crate) async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}

/// Returns the answer to a request.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str) -> Answer {
    let mut text = String::new();
    send(address, method, path).read_to_string(&mut text).expect("an answer");
    Answer::checked(method, path, &text)
}

/// Returns the body of the answer to a `GET`.
pub(crate) fn get(address: SocketAddr, path: &str) -> Value {
    ask(address, "GET", path).json()
}

/// Returns the answer with so many events, and the connection on which more of them come.
pub(crate) fn listen(address: SocketAddr, path: &str, events: usize) -> (Answer, TcpStream) {
    let (mut stream, mut received) = (send(address, "GET", path), Vec::new());
    let mut buffer = [0; 4096];
    loop {
        let len = stream.read(&mut buffer).expect("an answer");
        received.extend_from_slice(&buffer[..len]);
        let text = String::from_utf8_lossy(&received);
        if len == 0 || text.matches("\n\n").count() >= events {
            return (Answer::checked("GET", path, &text), stream);
        }
    }
}

fn send(address: SocketAddr, method: &str, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a connection");
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: aggregator\r\nconnection: close\r\n\r\n").expect("it is sent");
    stream
}

impl Answer {
    fn checked(method: &str, path: &str, text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let (first, headers) = head.split_once("\r\n").expect("headers");
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let headers = headers.lines().filter_map(|line| line.split_once(": "));
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
        let answer = Self { status, headers, body: body.to_owned() };
        contract().check(method, path, &answer.described()).unwrap_or_else(|fault| panic!("{method} {path}: {fault}"));
        answer
    }

    /// Returns the answer as its description has it.
    pub(crate) fn described(&self) -> ApiAnswer<'_> {
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        ApiAnswer { status: self.status, headers, body: self.body.as_bytes(), events: self.events() }
    }

    /// Returns the content type without its parameters; empty if there is none.
    pub(crate) fn content_type(&self) -> &str {
        self.headers.get("content-type").and_then(|text| text.split(';').next()).unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }

    /// Returns the data of server-sent events.
    pub(crate) fn events(&self) -> Vec<Value> {
        if self.content_type() != "text/event-stream" {
            return Vec::new();
        }
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).expect("JSON in an event")).collect()
    }
}
