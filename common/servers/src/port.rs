//! Ports of servers under test.
//!
//! Tests run in several processes at once, and stop and restart servers on their ports. So a port belongs to one process until
//! it ends, by a lock on a file. It lies below the range from which the system takes the ports of outgoing connections.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Ports of tests. Linux takes those of outgoing connections from 32768 on.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Locked files of the ports of this process.
static OWN: Mutex<Vec<File>> = Mutex::new(Vec::new());

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
            && TcpListener::bind(("127.0.0.1", port)).is_ok()
        {
            own.push(lock);
            return port;
        }
    }
    panic!("all ports from {} to {} are in use", PORTS.start, PORTS.end);
}

fn lock(folder: &Path, port: u16) -> Option<File> {
    let file = File::create(folder.join(port.to_string())).ok()?;
    file.try_lock().is_ok().then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: std::collections::BTreeSet<u16> = (0..20).map(|_| free_port()).collect();
        assert_eq!(ports.len(), 20);
    }
}
