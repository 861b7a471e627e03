//! Requests of Envoy's rate limit service, in the form of gRPC.

use fastrand::Rng;

use crate::live::skewed_callers::caller;

/// Domain of the rules.
pub(super) const DOMAIN: &str = "bench";

/// Returns a request of the n-th call: of one descriptor, or of two if n is odd.
pub(super) fn of(nth: usize, rng: &mut Rng) -> Vec<u8> {
    let (key, tenant) = (format!("key-{}", caller(rng)), format!("tenant-{}", rng.u8(..8)));
    let mut message = Vec::new();
    field(&mut message, 1, DOMAIN.as_bytes());
    field(&mut message, 2, &descriptor("api_key", &key));
    if !nth.is_multiple_of(2) {
        field(&mut message, 2, &descriptor("tenant", &tenant));
    }
    let mut request = vec![0];
    request.extend(u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    request.extend(message);
    request
}

fn descriptor(key: &str, value: &str) -> Vec<u8> {
    let (mut entry, mut descriptor) = (Vec::new(), Vec::new());
    field(&mut entry, 1, key.as_bytes());
    field(&mut entry, 2, value.as_bytes());
    field(&mut descriptor, 1, &entry);
    descriptor
}

/// Appends a field of Protocol Buffers with a length below 128.
fn field(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    let len = u8::try_from(content.len()).ok().filter(|len| *len < 128);
    message.extend([number << 3 | 2, len.expect("names of callers are short")]);
    message.extend(content);
}
