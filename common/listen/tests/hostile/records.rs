//! Bytes in place of a handshake: other protocols, broken records, broken first messages, silence.

use tokio::io::AsyncWriteExt;

use crate::hello::{HANDSHAKE, Hello, listed, message, record};
use crate::target::{Attack, End, HostileClient, REQUEST, Target, first_record};

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const APPLICATION_DATA: u8 = 23;
const HEARTBEAT: u8 = 24;

const UNEXPECTED_MESSAGE: u8 = 10;
const HANDSHAKE_FAILURE: u8 = 40;
const ILLEGAL_PARAMETER: u8 = 47;
const DECODE_ERROR: u8 = 50;
const PROTOCOL_VERSION: u8 = 70;

/// Number of connections, or of records on one connection, of a flood.
const FLOOD: usize = 500;

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn clients() -> Vec<HostileClient> {
    let of = |name, bytes: Vec<u8>, expected| HostileClient {
        name,
        attack: Attack::Records(bytes, false),
        expected,
        is_slow: false,
    };
    let ended =
        |name, bytes| HostileClient { attack: Attack::Records(bytes, true), ..of(name, Vec::new(), End::Closed) };
    let alerted = |name, bytes, alert| of(name, bytes, End::Alert(alert));
    let shaken = |name, message: Vec<u8>, alert| of(name, record(HANDSHAKE, &message), End::Alert(alert));
    let closed = |name, bytes| of(name, bytes, End::Closed);
    let silent = |name, bytes| HostileClient { is_slow: true, ..of(name, bytes, End::Closed) };
    let hello = Hello::valid;
    let greeted = |name, hello: Hello, alert| of(name, hello.records(), End::Alert(alert));
    let accepted = |name, bytes| of(name, bytes, End::Record(HANDSHAKE));
    let first = hello().records();
    vec![
        silent("a client that sends nothing", Vec::new()),
        ended("a client that connects and leaves", Vec::new()),
        silent("half of a record", first[..40].to_vec()),
        ended("half of a record, and an end", first[..40].to_vec()),
        silent("half of the head of a record", first[..3].to_vec()),
        silent("half of a message", record(HANDSHAKE, &hello().message()[..60])),
        silent(
            "a message byte by byte that breaks off",
            hello().message()[..60].iter().flat_map(|byte| record(HANDSHAKE, &[*byte])).collect(),
        ),
        accepted("a handshake that is left open", first.clone()),
        accepted(
            "a message byte by byte",
            hello().message().iter().flat_map(|byte| record(HANDSHAKE, &[*byte])).collect(),
        ),
        alerted("a request of HTTP/1", REQUEST.to_vec(), DECODE_ERROR),
        alerted("a preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), DECODE_ERROR),
        alerted("a greeting of SSH", b"SSH-2.0-evil\r\n".to_vec(), DECODE_ERROR),
        alerted("a message of SSL 2", vec![0x80, 0x2e, 1, 0, 2, 0, 0x15, 0, 0, 0, 0x10, 1, 0, 0x80], DECODE_ERROR),
        alerted("zeros", vec![0; 1_000], DECODE_ERROR),
        alerted("bytes of ones", vec![0xff; 100_000], DECODE_ERROR),
        alerted("an unknown kind of record", record(99, b"evil"), DECODE_ERROR),
        alerted("a heartbeat that asks for 64 KB", record(HEARTBEAT, &[1, 0xff, 0xff]), DECODE_ERROR),
        alerted("a record of version 0", [&[HANDSHAKE, 0, 0][..], &listed(&hello().message())].concat(), DECODE_ERROR),
        alerted("a record of 65,535 bytes", [HANDSHAKE, 3, 3, 0xff, 0xff].to_vec(), DECODE_ERROR),
        alerted("an empty record", record(HANDSHAKE, b""), DECODE_ERROR),
        alerted("a flood of empty records", record(HANDSHAKE, b"").repeat(FLOOD), DECODE_ERROR),
        alerted("data before a handshake", record(APPLICATION_DATA, REQUEST), UNEXPECTED_MESSAGE),
        alerted("a change of the cipher before a handshake", record(CHANGE_CIPHER_SPEC, &[1]), UNEXPECTED_MESSAGE),
        alerted("a flood of changes of the cipher", record(CHANGE_CIPHER_SPEC, &[1]).repeat(FLOOD), UNEXPECTED_MESSAGE),
        silent("an alert that ends nothing", record(ALERT, &[2, 40])),
        silent("a goodbye before a handshake", record(ALERT, &[1, 0])),
        alerted("an alert of one byte", record(ALERT, &[1]), DECODE_ERROR),
        closed("a flood of warnings", record(ALERT, &[1, 90]).repeat(FLOOD)),
        shaken("a message of a server", message(2, &[0; 40]), UNEXPECTED_MESSAGE),
        shaken("a request for a greeting", message(0, b""), UNEXPECTED_MESSAGE),
        shaken("an end of a handshake", message(20, &[0; 32]), UNEXPECTED_MESSAGE),
        shaken("an update of keys", message(24, &[1]), UNEXPECTED_MESSAGE),
        shaken("certificates before a greeting", message(11, &[0; 4]), DECODE_ERROR),
        shaken("an unknown message", message(99, &[0; 4]), UNEXPECTED_MESSAGE),
        closed("a message of 16 MB", record(HANDSHAKE, &[1, 0xff, 0xff, 0xff, 3, 3])),
        closed(
            "a message of 1 MB",
            [record(HANDSHAKE, &[1, 0x10, 0, 0]), record(HANDSHAKE, &[0; 1 << 14]).repeat(64)].concat(),
        ),
        shaken("a greeting without contents", message(1, b""), DECODE_ERROR),
        shaken(
            "a greeting with bytes behind it",
            message(1, &[&hello().message()[4..], b"evil"].concat()),
            DECODE_ERROR,
        ),
        shaken("half of a greeting", message(1, &hello().message()[4..60]), DECODE_ERROR),
        accepted("two greetings", [first.clone(), first.clone()].concat()),
        greeted("a session of 33 bytes", Hello { session: vec![7; 33], ..hello() }, DECODE_ERROR),
        greeted("no suites", Hello { suites: Vec::new(), ..hello() }, DECODE_ERROR),
        greeted("unknown suites", Hello { suites: vec![0xeeee; 1_000], ..hello() }, HANDSHAKE_FAILURE),
        greeted("suites without secrecy", Hello { suites: vec![0x0000, 0x0004, 0x0005], ..hello() }, HANDSHAKE_FAILURE),
        greeted("no compression", Hello { compressions: Vec::new(), ..hello() }, DECODE_ERROR),
        greeted("a compression", Hello { compressions: vec![1], ..hello() }, ILLEGAL_PARAMETER),
        greeted("SSL 3", Hello { version: 0x300, ..hello().without(43) }, PROTOCOL_VERSION),
        greeted("TLS 1.1", Hello { version: 0x302, ..hello().without(43) }, PROTOCOL_VERSION),
        greeted("only an unknown version", hello().with(43, vec![2, 0x7f, 0x7f]), PROTOCOL_VERSION),
        greeted("no versions", hello().with(43, vec![0]), DECODE_ERROR),
        greeted("no groups", hello().without(10), HANDSHAKE_FAILURE),
        greeted("no signatures", hello().without(13), HANDSHAKE_FAILURE),
        greeted("no key", hello().without(51), HANDSHAKE_FAILURE),
        greeted("a key of one byte", hello().with(51, listed(&[0, 0x1d, 0, 1, 9])), ILLEGAL_PARAMETER),
        greeted(
            "a key of zeros",
            hello().with(51, listed(&[&[0, 0x1d, 0, 32][..], &[0; 32]].concat())),
            ILLEGAL_PARAMETER,
        ),
        greeted("a key that breaks off", hello().with(51, vec![0, 36, 0, 0x1d, 0, 32, 9]), DECODE_ERROR),
        greeted(
            "two keys of a group",
            hello().with(51, listed(&[&[0, 0x1d, 0, 32][..], &[9; 32]].concat().repeat(2))),
            ILLEGAL_PARAMETER,
        ),
        accepted("an unknown protocol, which is refused later", hello().with(16, listed(b"\x04evil")).records()),
        greeted("a protocol without a name", hello().with(16, listed(&[0])), DECODE_ERROR),
        greeted("no protocols", hello().with(16, listed(b"")), DECODE_ERROR),
        greeted(
            "a name of a host that is none",
            hello().with(0, listed(&[&[0][..], &listed(b"evil\0")].concat())),
            ILLEGAL_PARAMETER,
        ),
        greeted(
            "a session of before without a proof",
            hello().with(41, listed(&[&listed(b"ticket")[..], &[0; 4]].concat())),
            DECODE_ERROR,
        ),
        greeted(
            "an extension twice",
            Hello { extensions: [hello().extensions, vec![(43, vec![2, 3, 4])]].concat(), ..hello() },
            ILLEGAL_PARAMETER,
        ),
        accepted(
            "1,000 unknown extensions",
            Hello {
                extensions: [hello().extensions, (0x6000..0x63e8).map(|number| (number, vec![0; 8])).collect()]
                    .concat(),
                ..hello()
            }
            .records(),
        ),
        accepted("an unknown extension of 60,000 bytes", hello().with(0x6000, vec![0; 60_000]).records()),
    ]
}

/// Opens connections that begin a handshake and leave it open. The server closes all of them.
pub(crate) async fn half_handshakes(target: &Target) -> Result<(), String> {
    let mut streams = Vec::new();
    for _ in 0..FLOOD {
        let mut stream = target.connect().await;
        stream.write_all(&Hello::valid().records()[..90]).await.map_err(|error| error.to_string())?;
        streams.push(stream);
    }
    for stream in &mut streams {
        let end = first_record(stream).await;
        if end != End::Closed {
            return Err(format!("half a handshake: {end:?}"));
        }
    }
    Ok(())
}
