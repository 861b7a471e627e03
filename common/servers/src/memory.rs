//! Memory of the test's own process.

/// Returns the resident memory of this process in bytes.
///
/// # Panics
/// If the system does not tell it.
#[must_use]
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a process has memory");
    let kibibytes = line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number of KiB");
    kibibytes << 10
}
