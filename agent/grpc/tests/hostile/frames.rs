//! Broken and hostile frames of HTTP/2. The agent ends the stream or the connection with the error that the protocol names.

use crate::requests::{End, HostileFrames, Service};
use crate::wire::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, GO_AWAY, HEADERS, PADDED, PING, PREFACE, RESET, SETTINGS,
    WINDOW_UPDATE, frame, header, headers, message,
};

const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

const PRIORITY: u8 = 2;
const PUSH_PROMISE: u8 = 5;
/// Number of frames of a flood.
const FLOOD: usize = 10_000;
/// Number of streams at once: more than the agent takes.
const STREAMS: u32 = 500;
/// Number of streams that are reset: more than the agent remembers.
const RESETS: u32 = 2_000;

#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn connections(service: Service) -> Vec<HostileFrames> {
    let of = |name, bytes: Vec<u8>, expected| HostileFrames { name, bytes, expected, is_slow: false };
    let silent = |name, bytes| HostileFrames { is_slow: true, ..of(name, bytes, End::Closed) };
    let begun = |frames: Vec<u8>| [PREFACE, &frame(SETTINGS, 0, 0, ""), &frames].concat();
    let ends = |name, frames, code| of(name, begun(frames), End::GoAway(code));
    let resets = |name, frames, code| of(name, begun(frames), End::Reset(code));
    let stays = |name, frames| of(name, begun(frames), End::Alive);
    let block = headers(service.path());
    let open = |stream| frame(HEADERS, END_HEADERS, stream, &block);
    let with = |fields: Vec<u8>| frame(HEADERS, END_HEADERS | END_STREAM, 1, [&block[..], &fields].concat());
    let coded = |name, block: &[u8]| ends(name, frame(HEADERS, END_HEADERS, 1, block), PROTOCOL_ERROR);
    let setting = |id: u16, value: u32| {
        let setting = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
        frame(SETTINGS, 0, 0, setting)
    };
    let window = |stream, units: u32| frame(WINDOW_UPDATE, 0, stream, units.to_be_bytes());
    let reset = |stream| frame(RESET, 0, stream, 8_u32.to_be_bytes());
    let streams = |count: u32| (0..count).map(|place| 2 * place + 1);
    let too_long = [&[0, 0x40, 1, DATA, 0][..], &1_u32.to_be_bytes()].concat();
    let longest = [&[0xff, 0xff, 0xff, DATA, 0][..], &1_u32.to_be_bytes()].concat();
    let ping = || frame(PING, 0, 0, [0; 8]);
    vec![
        of("an answer of a server", frame(SETTINGS, 1, 0, ""), End::Closed),
        silent("half of a preface", PREFACE[..20].to_vec()),
        of("a preface twice", begun(PREFACE.to_vec()), End::GoAway(FRAME_SIZE_ERROR)),
        ends("a frame of 16,385 bytes", [open(1), too_long].concat(), FRAME_SIZE_ERROR),
        ends("a frame of 16 MB", [open(1), longest].concat(), FRAME_SIZE_ERROR),
        ends("half of a setting", frame(SETTINGS, 0, 0, [0; 5]), PROTOCOL_ERROR),
        ends("settings of a stream", frame(SETTINGS, 0, 1, ""), PROTOCOL_ERROR),
        ends("a long acknowledgement", frame(SETTINGS, 1, 0, [0; 6]), PROTOCOL_ERROR),
        ends("an acknowledgement of nothing", frame(SETTINGS, 1, 0, "").repeat(2), PROTOCOL_ERROR),
        ends("a window of 2^32 - 1", setting(4, u32::MAX), PROTOCOL_ERROR),
        ends("frames of one byte", setting(5, 1), PROTOCOL_ERROR),
        ends("a push of 2", setting(2, 2), PROTOCOL_ERROR),
        ends("a request in stream 0", open(0), PROTOCOL_ERROR),
        ends("a request in a stream of the server", open(2), PROTOCOL_ERROR),
        ends("a request in an older stream", [open(5), open(3)].concat(), PROTOCOL_ERROR),
        ends("data in stream 0", frame(DATA, 0, 0, "x"), PROTOCOL_ERROR),
        ends("data in a stream that never began", frame(DATA, 0, 1, "x"), PROTOCOL_ERROR),
        ends("a continuation of nothing", frame(CONTINUATION, END_HEADERS, 1, &block), PROTOCOL_ERROR),
        ends("a ping within headers", [frame(HEADERS, 0, 1, &block), ping()].concat(), PROTOCOL_ERROR),
        ends(
            "a continuation of another stream",
            [frame(HEADERS, 0, 1, &block), frame(CONTINUATION, 0, 3, "")].concat(),
            PROTOCOL_ERROR,
        ),
        ends("a promise of a push", frame(PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2]), PROTOCOL_ERROR),
        ends("more padding than data", [open(1), frame(DATA, PADDED, 1, [9, 0])].concat(), PROTOCOL_ERROR),
        ends("a priority of 4 bytes", frame(PRIORITY, 0, 1, [0; 4]), PROTOCOL_ERROR),
        ends("the end of a stream that never began", reset(1), PROTOCOL_ERROR),
        ends("the end of stream 0", reset(0), PROTOCOL_ERROR),
        ends("an end of 3 bytes", [open(1), frame(RESET, 0, 1, [0; 3])].concat(), PROTOCOL_ERROR),
        ends("a ping of 7 bytes", frame(PING, 0, 0, [0; 7]), PROTOCOL_ERROR),
        ends("a ping of a stream", frame(PING, 0, 1, [0; 8]), PROTOCOL_ERROR),
        ends("a window of 0 more", window(0, 0), PROTOCOL_ERROR),
        ends("a window past 2^31", window(0, (1 << 31) - 1), FLOW_CONTROL_ERROR),
        ends("a window of a stream that never began", window(1, 5), PROTOCOL_ERROR),
        ends("a goodbye of 3 bytes", frame(GO_AWAY, 0, 0, [0; 3]), PROTOCOL_ERROR),
        ends("a goodbye of a stream", frame(GO_AWAY, 0, 1, [0; 8]), PROTOCOL_ERROR),
        of("a goodbye", begun(frame(GO_AWAY, 0, 0, [0; 8])), End::Closed),
        coded("the header 0", &[0x80]),
        coded("a header that is in no table", &[0xff, 0xff, 0x03]),
        coded("a header number past 2^32", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        coded("a table of headers of 1 GB", &[0x3f, 0xe1, 0xff, 0xff, 0xff, 0x03]),
        coded("a header that breaks off", &[0, 100, b'x']),
        coded("letters that no code has", &[0, 0x84, 0xff, 0xff, 0xff, 0xff, 1, b'v']),
        ends("a window of 0 more for a stream", [open(1), window(1, 0)].concat(), PROTOCOL_ERROR),
        resets("a window past 2^31 for a stream", [open(1), window(1, (1 << 31) - 1)].concat(), FLOW_CONTROL_ERROR),
        ends("data behind the end", [with(Vec::new()), frame(DATA, 0, 1, "x")].concat(), PROTOCOL_ERROR),
        resets("no method", frame(HEADERS, END_HEADERS | END_STREAM, 1, &block[1..]), PROTOCOL_ERROR),
        resets("no headers", frame(HEADERS, END_HEADERS | END_STREAM, 1, ""), PROTOCOL_ERROR),
        resets("a path twice", with(header(":path", "/evil")), PROTOCOL_ERROR),
        resets("a status in a request", with(header(":status", "200")), PROTOCOL_ERROR),
        resets("a header of HTTP/1", with(header("connection", "close")), PROTOCOL_ERROR),
        resets("a header of HTTP/1 that frames", with(header("transfer-encoding", "chunked")), PROTOCOL_ERROR),
        ends("a header in capital letters", with(header("X-Evil", "v")), PROTOCOL_ERROR),
        ends("a header with lines", with(header("x-evil", "v\r\nx: y")), PROTOCOL_ERROR),
        resets(
            "less data than its length",
            [
                frame(HEADERS, END_HEADERS, 1, [&block[..], &header("content-length", "99")].concat()),
                frame(DATA, END_STREAM, 1, "x"),
            ]
            .concat(),
            PROTOCOL_ERROR,
        ),
        resets("500 streams at once", streams(STREAMS).flat_map(open).collect(), REFUSED_STREAM),
        stays("unknown frames", frame(99, 0xff, 7, [0; 100]).repeat(1_000)),
        stays(
            "priorities of streams that never began",
            streams(STREAMS).flat_map(|stream| frame(PRIORITY, 0, stream, [0, 0, 0, 0, 9])).collect(),
        ),
        stays("a flood of pings", ping().repeat(FLOOD)),
        stays("a flood of settings", setting(3, 100).repeat(FLOOD)),
        stays("a flood of acknowledged pings", frame(PING, 1, 0, [0; 8]).repeat(FLOOD)),
        stays("windows of 0 and 100 streams", [setting(4, 0), streams(100).flat_map(open).collect()].concat()),
        stays(
            "a call that resets itself",
            [open(1), frame(DATA, 0, 1, &message(service.good_message())[..9]), reset(1)].concat(),
        ),
        ends("a flood of empty data", [open(1), frame(DATA, 0, 1, "").repeat(FLOOD * 10)].concat(), ENHANCE_YOUR_CALM),
        ends(
            "a flood of continuations",
            [frame(HEADERS, 0, 1, &block), frame(CONTINUATION, 0, 1, "").repeat(FLOOD)].concat(),
            ENHANCE_YOUR_CALM,
        ),
        ends(
            "a flood of headers",
            [
                frame(HEADERS, 0, 1, &block),
                frame(CONTINUATION, 0, 1, header("x-evil", &"v".repeat(100)).repeat(100)).repeat(100),
            ]
            .concat(),
            ENHANCE_YOUR_CALM,
        ),
        ends(
            "a rapid reset",
            streams(RESETS).flat_map(|stream| [open(stream), reset(stream)].concat()).collect(),
            ENHANCE_YOUR_CALM,
        ),
        ends(
            "a rapid reset by the agent",
            streams(RESETS).flat_map(|stream| [open(stream), window(stream, (1 << 31) - 1)].concat()).collect(),
            ENHANCE_YOUR_CALM,
        ),
    ]
}
