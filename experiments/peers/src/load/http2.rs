//! Client side of one HTTP/2 connection with gRPC calls, as far as the servers of the measurement need it.
//!
//! The client opens its window once, to the maximum, so it sends no window updates for each answer. It indexes all headers in the
//! first request, and sends one byte for each of them afterwards. A library would cost more CPU than the servers under test.

use std::collections::HashMap;

use crate::rls::{self, Answer};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const HEAD_LEN: usize = 9;
const WINDOW_MAX: u32 = 0x7fff_ffff;
const WINDOW_DEFAULT: u32 = 65_535;
/// Window of the server that must be free before a request.
const WINDOW_MIN: i64 = 4_096;
/// Received bytes after which the client opens its window again.
const RECEIVED_MAX: u32 = 1 << 28;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
/// Flag of a frame of settings or of a ping that confirms one.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const INITIAL_WINDOW: u16 = 4;
const MAX_STREAMS: u16 = 3;

pub struct Http2 {
    authority: String,
    next_stream: u32,
    /// Bytes that the server takes.
    window: i64,
    streams_max: usize,
    /// Bytes received since the client opened its window.
    received: u32,
    /// Due instants and answers of the calls in flight.
    calls: HashMap<u32, (u64, Option<Answer>)>,
    /// True after the server has said that it closes the connection.
    pub is_closing: bool,
}

impl Http2 {
    /// Opens a connection.
    pub fn new(authority: String, output: &mut Vec<u8>) -> Self {
        output.extend(PREFACE);
        let mut settings = INITIAL_WINDOW.to_be_bytes().to_vec();
        settings.extend(WINDOW_MAX.to_be_bytes());
        frame(output, SETTINGS, 0, 0, &settings);
        frame(output, WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - WINDOW_DEFAULT).to_be_bytes());
        Self {
            authority,
            next_stream: 1,
            window: WINDOW_DEFAULT.into(),
            streams_max: usize::MAX,
            received: 0,
            calls: HashMap::new(),
            is_closing: false,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.calls.len()
    }

    pub fn has_room(&self) -> bool {
        self.calls.len() < self.streams_max && self.window > WINDOW_MIN
    }

    pub fn send(&mut self, request: &[u8], due: u64, output: &mut Vec<u8>) {
        // `:method: POST` and `:scheme: http` stand in the static table.
        let mut headers = vec![0x83, 0x86];
        if self.next_stream == 1 {
            let indexed =
                [(4, "", PATH), (1, "", &*self.authority), (31, "", "application/grpc"), (0, "te", "trailers")];
            for (name_index, name, value) in indexed {
                headers.push(0x40 | name_index);
                if name_index == 0 {
                    text(&mut headers, name);
                }
                text(&mut headers, value);
            }
        } else {
            // The same four, by their indexes: the dynamic table begins at 62 with the newest one.
            headers.extend([0xc1, 0xc0, 0xbf, 0xbe]);
        }
        frame(output, HEADERS, END_HEADERS, self.next_stream, &headers);
        frame(output, DATA, END_STREAM, self.next_stream, request);
        self.window -= i64::try_from(request.len()).expect("a short request");
        self.calls.insert(self.next_stream, (due, None));
        self.next_stream += 2;
    }

    /// Reads the whole frames of the input. Returns the number of bytes that they have.
    pub fn receive(&mut self, input: &[u8], output: &mut Vec<u8>, answered: &mut Vec<(u64, Answer)>) -> usize {
        let mut read = 0;
        while let Some(head) = input.get(read..read + HEAD_LEN) {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let Some(content) = input.get(read + HEAD_LEN..read + HEAD_LEN + len) else { break };
            read += HEAD_LEN + len;
            self.take(head, content, output, answered);
        }
        if self.received > RECEIVED_MAX {
            frame(output, WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes());
            self.received = 0;
        }
        read
    }

    fn take(&mut self, head: &[u8], content: &[u8], output: &mut Vec<u8>, answered: &mut Vec<(u64, Answer)>) {
        let (kind, flags, stream) = (head[3], head[4], number(&head[5..]));
        match kind {
            DATA => {
                self.received += u32::try_from(content.len()).expect("a frame below 16 MB");
                let message = if flags & PADDED == 0 { content } else { &content[1..] };
                if let Some((_, answer)) = self.calls.get_mut(&stream).filter(|_| !message.is_empty()) {
                    *answer = Some(rls::answer(message));
                }
            }
            RESET => answered.extend(self.calls.remove(&stream).map(|(due, _)| (due, Answer::Failed))),
            SETTINGS if flags & ACK == 0 => {
                let settings =
                    content.chunks_exact(6).map(|one| (u16::from_be_bytes([one[0], one[1]]), number(&one[2..])));
                for (_, value) in settings.filter(|(setting, _)| *setting == MAX_STREAMS) {
                    self.streams_max = value as usize;
                }
                frame(output, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(output, PING, ACK, 0, content),
            GO_AWAY => self.is_closing = true,
            WINDOW_UPDATE if stream == 0 => self.window += i64::from(number(content)),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            let call = self.calls.remove(&stream);
            answered.extend(call.map(|(due, answer)| (due, answer.unwrap_or(Answer::Failed))));
        }
    }
}

fn frame(output: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, content: &[u8]) {
    let len = u32::try_from(content.len()).expect("a short frame");
    output.extend(&len.to_be_bytes()[1..]);
    output.extend([kind, flags]);
    output.extend(stream.to_be_bytes());
    output.extend(content);
}

/// Appends a text of a header with a length below 127.
fn text(headers: &mut Vec<u8>, text: &str) {
    headers.push(u8::try_from(text.len()).expect("a short header"));
    headers.extend(text.as_bytes());
}

/// Returns a number of 31 bits.
fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) & WINDOW_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_belong_to_their_calls() {
        let (mut output, mut input, mut answered) = (Vec::new(), Vec::new(), Vec::new());
        let mut client = Http2::new("127.0.0.1:1".to_owned(), &mut output);
        (0..4).for_each(|due| client.send(b"request", due, &mut output));
        frame(&mut input, DATA, 0, 5, b"\x00\x00\x00\x00\x02\x08\x02");
        frame(&mut input, DATA, 0, 1, b"\x00\x00\x00\x00\x02\x08\x01");
        for (kind, flags, stream) in
            [(HEADERS, END_STREAM, 1), (RESET, 0, 3), (HEADERS, END_STREAM, 5), (HEADERS, END_STREAM, 7)]
        {
            frame(&mut input, kind, flags, stream, &[0; 4]);
        }
        let part = input.len() - 1;
        let read = client.receive(&input[..part], &mut output, &mut answered);
        assert_eq!(answered, [(0, Answer::Allowed), (1, Answer::Failed), (2, Answer::Denied)]);
        assert_eq!(client.in_flight(), 1);
        let rest = client.receive(&input[read..], &mut output, &mut answered);
        assert_eq!(
            (read + rest, answered.last()),
            (input.len(), Some(&(3, Answer::Failed))),
            "an answer has a message"
        );
    }

    #[test]
    fn settings_and_pings_are_confirmed_and_limits_are_kept() {
        let (mut output, mut input, mut answered) = (Vec::new(), Vec::new(), Vec::new());
        let mut client = Http2::new("127.0.0.1:1".to_owned(), &mut output);
        output.clear();
        frame(&mut input, SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
        frame(&mut input, PING, 0, 0, b"12345678");
        client.receive(&input, &mut output, &mut answered);
        let mut expected = Vec::new();
        frame(&mut expected, SETTINGS, ACK, 0, &[]);
        frame(&mut expected, PING, ACK, 0, b"12345678");
        assert_eq!(output, expected);
        assert!(client.has_room());
        client.send(b"request", 0, &mut output);
        assert!(!client.has_room());
    }
}
