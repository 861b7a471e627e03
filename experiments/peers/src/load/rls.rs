//! Messages of Envoy's rate limit service: the request as bytes, and the decision of a response.

/// Decision of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Allowed,
    Denied,
    /// Anything but a decision.
    Failed,
}

/// Returns the frame of a request with one descriptor for each pair.
pub fn request(domain: &str, descriptors: &[(&str, &str)]) -> Vec<u8> {
    let mut message = Vec::new();
    field(&mut message, 1, domain.as_bytes());
    for (key, value) in descriptors {
        let (mut entry, mut descriptor) = (Vec::new(), Vec::new());
        field(&mut entry, 1, key.as_bytes());
        field(&mut entry, 2, value.as_bytes());
        field(&mut descriptor, 1, &entry);
        field(&mut message, 2, &descriptor);
    }
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).expect("a short message").to_be_bytes());
    frame.extend(message);
    frame
}

/// Returns the decision of a frame with a response. Its first field is the code of all descriptors.
pub fn answer(frame: &[u8]) -> Answer {
    match frame.get(5..) {
        Some([0x08, 1, ..]) => Answer::Allowed,
        Some([0x08, 2, ..]) => Answer::Denied,
        _ => Answer::Failed,
    }
}

/// Appends a field of Protocol Buffers with a length below 128.
fn field(message: &mut Vec<u8>, number: u8, content: &[u8]) {
    let len = u8::try_from(content.len()).ok().filter(|len| *len < 128);
    message.extend([number << 3 | 2, len.expect("a short field")]);
    message.extend(content);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_domain_and_each_descriptor() {
        let expected = b"\x00\x00\x00\x00\x0e\x0a\x01d\x12\x09\x0a\x07\x0a\x01k\x12\x02v1";
        assert_eq!(request("d", &[("k", "v1")]), expected);
        let two = request("d", &[("k", "v1"), ("l", "v2")]);
        assert!(two[4] == 25 && two.ends_with(b"\x12\x09\x0a\x07\x0a\x01l\x12\x02v2"), "{two:?}");
    }

    #[test]
    fn only_a_code_is_a_decision() {
        let cases: [(&[u8], Answer); 5] = [
            (b"\x00\x00\x00\x00\x02\x08\x01", Answer::Allowed),
            (b"\x00\x00\x00\x00\x04\x08\x02\x12\x00", Answer::Denied),
            (b"\x00\x00\x00\x00\x02\x08\x00", Answer::Failed),
            (b"\x00\x00\x00\x00\x00", Answer::Failed),
            (b"", Answer::Failed),
        ];
        for (frame, expected) in cases {
            assert_eq!(answer(frame), expected, "{frame:?}");
        }
    }
}
