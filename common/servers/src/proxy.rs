//! TCP proxy that can stop forwarding, or lose an answer: a partition between two processes, in which connections stay open and nothing
//! arrives, and a connection that ends after the server has worked on a request.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::spawn;

use parking_lot::{Condvar, Mutex};

/// TCP proxy on a free port of this machine.
#[derive(Clone)]
pub struct Proxy(Arc<ProxyState>);

struct ProxyState {
    port: u16,
    target: AtomicU16,
    is_stopped: Mutex<bool>,
    resumed: Condvar,
    loss: Mutex<AnswerLoss>,
}

/// Loss of an answer with its connection.
enum AnswerLoss {
    None,
    /// The answer to the next request that contains this text is lost; then the target refuses connections or not.
    Due {
        text: String,
        refuses: bool,
    },
    /// The request was forwarded on this connection.
    Asked {
        connection: u64,
        refuses: bool,
    },
    Done {
        refuses: bool,
    },
}

/// Direction in which a thread forwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

impl Proxy {
    /// Starts a proxy that forwards to nothing yet.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[must_use]
    pub fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let (target, is_stopped) = (AtomicU16::new(0), Mutex::new(false));
        let (resumed, loss) = (Condvar::new(), Mutex::new(AnswerLoss::None));
        let proxy = Self(Arc::new(ProxyState { port, target, is_stopped, resumed, loss }));
        let accepting = proxy.clone();
        spawn(move || {
            for (connection, near) in (0..).zip(listener.incoming().flatten()) {
                accepting.connect(near, connection);
            }
        });
        proxy
    }

    /// Returns the port on which the proxy listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Forwards new connections to this port.
    pub fn forward_to(&self, port: u16) {
        self.0.target.store(port, Ordering::Relaxed);
    }

    /// Stops forwarding, or resumes it.
    pub fn set_stopped(&self, is_stopped: bool) {
        *self.0.is_stopped.lock() = is_stopped;
        self.0.resumed.notify_all();
    }

    /// Cuts a connection in place of the answer to the next request that contains this text. The target has read the request. Then each
    /// new connection ends at once, if wanted, until [`accept`](Self::accept).
    pub fn lose_answer(&self, text: &str, refuses: bool) {
        *self.0.loss.lock() = AnswerLoss::Due { text: text.to_owned(), refuses };
    }

    /// Returns true if the answer was lost.
    #[must_use]
    pub fn has_lost_answer(&self) -> bool {
        matches!(*self.0.loss.lock(), AnswerLoss::Done { .. })
    }

    /// Accepts connections again, and loses no answer.
    pub fn accept(&self) {
        *self.0.loss.lock() = AnswerLoss::None;
    }

    /// Connects a client to the target, and forwards both ways. A target that does not listen ends the connection.
    fn connect(&self, near: TcpStream, connection: u64) {
        if matches!(*self.0.loss.lock(), AnswerLoss::Done { refuses: true }) {
            return;
        }
        let Ok(far) = TcpStream::connect(("127.0.0.1", self.0.target.load(Ordering::Relaxed))) else { return };
        let (Ok(near_reads), Ok(far_reads)) = (near.try_clone(), far.try_clone()) else { return };
        for (from, to, direction) in [(near_reads, far, Direction::Requests), (far_reads, near, Direction::Answers)] {
            let proxy = self.clone();
            spawn(move || proxy.forward(from, to, direction, connection));
        }
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream, direction: Direction, connection: u64) {
        let mut buffer = [0; 1 << 14];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let mut is_stopped = self.0.is_stopped.lock();
            while *is_stopped {
                self.0.resumed.wait(&mut is_stopped);
            }
            drop(is_stopped);
            if direction == Direction::Answers && self.loses_answer(connection) {
                break;
            }
            // The answer cannot come before it is known to be the one.
            let mut loss = self.0.loss.lock();
            if to.write_all(&buffer[..len]).is_err() {
                break;
            }
            let has = |text: &str| buffer[..len].windows(text.len()).any(|part| part == text.as_bytes());
            if let AnswerLoss::Due { text, refuses } = &*loss
                && direction == Direction::Requests
                && has(text)
            {
                *loss = AnswerLoss::Asked { connection, refuses: *refuses };
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }

    /// Returns true if the next answer on this connection is the one that is lost.
    fn loses_answer(&self, connection: u64) -> bool {
        let mut loss = self.0.loss.lock();
        let AnswerLoss::Asked { connection: asked, refuses } = *loss else { return false };
        let is_lost = asked == connection;
        if is_lost {
            *loss = AnswerLoss::Done { refuses };
        }
        is_lost
    }
}
