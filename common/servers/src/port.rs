//! Ports of servers under test.
//!
//! Tests run in several processes at once, and stop and restart servers on their ports. So a port belongs to one process until
//! it ends, by a lock on a file. A bound socket keeps the system from giving it to an outgoing connection while the server is
//! away: such a connection holds a port for a minute after its end, and the range of these ports differs between machines.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Socket, Type};

/// Ports of tests.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Ports of this process.
static OWN: Mutex<Vec<OwnPort>> = Mutex::new(Vec::new());

/// Lock and socket that keep a port.
struct OwnPort {
    _lock: File,
    _bound: Socket,
}

/// Returns a port that no process listens on, and that no other process gets until this one ends.
///
/// # Panics
/// Panics if there is none, or the folder for temporary files cannot be written.
#[must_use]
pub fn free_port() -> u16 {
    let folder = std::env::temp_dir().join("tollgate-ports");
    fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    // Processes begin at different ports, so that they meet few locks of others.
    let count = PORTS.len();
    let first = (std::process::id() as usize).wrapping_mul(97) % count + own.len();
    let ports = (0..count).map(|step| PORTS.start + u16::try_from((first + step) % count).expect("within the range"));
    for port in ports {
        if let Some(lock) = lock(&folder, port)
            && let Ok(bound) = bind(port)
        {
            own.push(OwnPort { _lock: lock, _bound: bound });
            return port;
        }
    }
    panic!("all ports from {} to {} are in use", PORTS.start, PORTS.end);
}

fn lock(folder: &Path, port: u16) -> Option<File> {
    let file = File::create(folder.join(port.to_string())).ok()?;
    file.try_lock().is_ok().then_some(file)
}

/// Binds a socket that does not listen to a port on which no server listens. A server that allows the reuse of its address, as
/// all of ours do, can bind to the port as well.
fn bind(port: u16) -> io::Result<Socket> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    drop(TcpListener::bind(address)?);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: std::collections::BTreeSet<u16> = (0..20).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 20);
    }

    #[test]
    fn servers_follow_each_other_on_a_port() {
        let address = (Ipv4Addr::LOCALHOST, free_port());
        for _ in 0..2 {
            let server = TcpListener::bind(address).expect("the port is free");
            std::net::TcpStream::connect(address).expect("the server listens");
            drop(server);
            assert!(std::net::TcpStream::connect(address).is_err(), "nobody listens");
        }
    }
}
