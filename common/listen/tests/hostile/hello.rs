//! First message of a client of TLS, byte by byte, so that it can be broken at any place.

/// Content type of records of a handshake.
pub(crate) const HANDSHAKE: u8 = 22;

/// First message of a client.
#[derive(Clone)]
pub(crate) struct Hello {
    pub(crate) version: u16,
    pub(crate) session: Vec<u8>,
    pub(crate) suites: Vec<u16>,
    pub(crate) compressions: Vec<u8>,
    pub(crate) extensions: Vec<(u16, Vec<u8>)>,
}

impl Hello {
    /// Returns a message that begins a handshake of TLS 1.3.
    pub(crate) fn valid() -> Self {
        let key = [&[0, 0x1d, 0, 32][..], &[9; 32]].concat();
        let extensions = vec![
            (0, listed(&[&[0][..], &listed(b"localhost")].concat())),
            (10, listed(&[0, 0x1d, 0, 0x17])),
            (13, listed(&[4, 3, 8, 4, 8, 7])),
            (43, vec![2, 3, 4]),
            (51, listed(&key)),
        ];
        Self { version: 0x303, session: vec![7; 32], suites: vec![0x1301], compressions: vec![0], extensions }
    }

    /// Returns the message with this extension in place of the one with its number.
    pub(crate) fn with(mut self, number: u16, bytes: Vec<u8>) -> Self {
        self.extensions.retain(|(known, _)| *known != number);
        self.extensions.push((number, bytes));
        self
    }

    pub(crate) fn without(mut self, number: u16) -> Self {
        self.extensions.retain(|(known, _)| *known != number);
        self
    }

    /// Returns the message of the handshake.
    pub(crate) fn message(&self) -> Vec<u8> {
        let suites: Vec<u8> = self.suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
        let short = |bytes: &[u8]| [&[u8::try_from(bytes.len()).unwrap()], bytes].concat();
        let extensions: Vec<u8> = self
            .extensions
            .iter()
            .flat_map(|(number, bytes)| [&number.to_be_bytes()[..], &listed(bytes)].concat())
            .collect();
        let body = [
            self.version.to_be_bytes().to_vec(),
            vec![5; 32],
            short(&self.session),
            listed(&suites),
            short(&self.compressions),
            listed(&extensions),
        ]
        .concat();
        message(1, &body)
    }

    /// Returns the records of the message.
    pub(crate) fn records(&self) -> Vec<u8> {
        self.message().chunks(1 << 14).flat_map(|part| record(HANDSHAKE, part)).collect()
    }
}

/// Returns bytes with their length, in 16 bits, before them.
pub(crate) fn listed(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// Returns a message of a handshake.
pub(crate) fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind], &u32::try_from(body.len()).unwrap().to_be_bytes()[1..], body].concat()
}

/// Returns a record.
pub(crate) fn record(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &listed(payload)].concat()
}
