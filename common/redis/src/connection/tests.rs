//! Servers that are no Redis, and send an answer without an end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, mpsc};

use tollgate_core::clock::SystemClock;

use super::*;
use crate::script::Script;
use crate::settings::RedisSettings;

/// Maximum number of bytes that the buffers of two sockets hold.
const BUFFERED_BYTES_MAX: usize = 16 << 20;

/// Answers the first request on each connection with a beginning, and then with the same text again and again. Returns the address,
/// and the number of bytes that each connection took until it was closed.
fn endless(beginning: &'static str, repeated: &'static str) -> (SocketAddr, mpsc::Receiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    let (sender, taken) = mpsc::channel();
    let answer = move |mut tcp: TcpStream| -> usize {
        let chunk = repeated.repeat(65_536 / repeated.len());
        let _ = tcp.read(&mut [0; 1_024]);
        let mut sent = tcp.write(beginning.as_bytes()).unwrap_or_default();
        while let Ok(bytes @ 1..) = tcp.write(chunk.as_bytes()) {
            sent += bytes;
        }
        sent
    };
    std::thread::spawn(move || listener.incoming().flatten().all(|tcp| sender.send(answer(tcp)).is_ok()));
    (address, taken)
}

/// I8: an answer without an end takes no memory without an end.
#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    for (beginning, repeated) in [("$2000000000\r\n", "x"), ("-ERR ", "x"), ("+", "x"), ("*2000000000\r\n", ":1\r\n")] {
        let (address, taken) = endless(beginning, repeated);
        let settings = RedisSettings::new(&format!("redis://{address}"));
        let connection = RedisConnection::new(&settings, Arc::new(SystemClock::start()), Script::new("return 1"));
        let connection = Arc::new(connection.expect("an address"));
        assert!(connection.ping().await.is_err(), "{beginning}");
        let taken = taken.recv().expect("a connection");
        assert!(taken <= capped_stream::ANSWER_BYTES_MAX + BUFFERED_BYTES_MAX, "{beginning}: {taken} bytes");
    }
}
