//! Messages of Protobuf and frames of gRPC and HTTP/2, byte by byte, so that they can be broken at any place.

/// First bytes of a connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GO_AWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flag of the last frame of a stream, and of an acknowledgement.
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;

/// Returns a number of Protobuf.
pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

/// Returns a field with a number.
pub(crate) fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// Returns a field with a text, bytes or a message.
pub(crate) fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [&varint(field << 3 | 2), &varint(value.len() as u64), value].concat()
}

/// Returns a frame of gRPC.
pub(crate) fn message(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    announced(0, u32::try_from(body.len()).unwrap(), body)
}

/// Returns a frame of gRPC with this flag and length.
pub(crate) fn announced(flag: u8, len: u32, body: impl AsRef<[u8]>) -> Vec<u8> {
    [&[flag], &len.to_be_bytes()[..], body.as_ref()].concat()
}

/// Returns a frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: impl AsRef<[u8]>) -> Vec<u8> {
    let payload = payload.as_ref();
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns a header that is in no table of HPACK.
pub(crate) fn header(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Returns the headers of a request of gRPC.
pub(crate) fn headers(path: &str) -> Vec<u8> {
    let fields = [(":path", path), (":authority", "t"), ("content-type", "application/grpc"), ("te", "trailers")];
    let fields = fields.map(|(name, value)| header(name, value)).concat();
    // `:method: POST` and `:scheme: http` are in the static table.
    [vec![0x83, 0x86], fields].concat()
}
