//! TCP proxy that can stop forwarding: a partition between two processes. Connections stay open, and nothing arrives.

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
        let proxy = Self(Arc::new(ProxyState { port, target, is_stopped, resumed: Condvar::new() }));
        let accepting = proxy.clone();
        spawn(move || {
            for near in listener.incoming().flatten() {
                accepting.connect(near);
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

    /// Connects a client to the target, and forwards both ways. A target that does not listen ends the connection.
    fn connect(&self, near: TcpStream) {
        let Ok(far) = TcpStream::connect(("127.0.0.1", self.0.target.load(Ordering::Relaxed))) else { return };
        let (Ok(near_reads), Ok(far_reads)) = (near.try_clone(), far.try_clone()) else { return };
        for (from, to) in [(near_reads, far), (far_reads, near)] {
            let proxy = self.clone();
            spawn(move || proxy.forward(from, to));
        }
    }

    fn forward(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 1 << 14];
        while let Ok(len @ 1..) = from.read(&mut buffer) {
            let mut is_stopped = self.0.is_stopped.lock();
            while *is_stopped {
                self.0.resumed.wait(&mut is_stopped);
            }
            drop(is_stopped);
            if to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
