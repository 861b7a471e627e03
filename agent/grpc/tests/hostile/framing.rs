//! Requests whose headers, frames or messages are broken. They are the same for both services.

use http::{Method, Request};

use crate::requests::{End, HostileRequest, Service};
use crate::wire::{announced, bytes, message, number, varint};

/// Default of the maximum length of a message.
const LEN_MAX: u32 = 64 << 10;

pub(crate) fn requests(service: Service) -> Vec<HostileRequest> {
    let good = || message(service.good_message());
    let with = |change: fn(&mut Request<Vec<u8>>)| {
        let mut request = service.request(good());
        change(&mut request);
        request
    };
    let headers = |name, change, expected| HostileRequest::new(name, with(change), expected);
    let framed = |name, body: Vec<u8>, code| HostileRequest::new(name, service.request(body), End::Grpc(code));
    let coded = |name, body: Vec<u8>, code| framed(name, message(body), code);
    vec![
        headers("a body of JSON", |request| set(request, "content-type", "application/json"), End::Http(415)),
        headers("a form", |request| set(request, "content-type", "application/x-www-form-urlencoded"), End::Http(415)),
        headers("a page of gRPC", |request| set(request, "content-type", "application/grpc-web"), End::Http(415)),
        headers("no type", |request| drop(request.headers_mut().remove("content-type")), End::Http(415)),
        headers("a GET", |request| *request.method_mut() = Method::GET, End::Http(405)),
        headers(
            "a method of none",
            |request| *request.method_mut() = Method::from_bytes(b"EVIL").unwrap(),
            End::Http(405),
        ),
        headers("an unknown service", |request| to(request, "/envoy.service.none.v3.None/Ask"), End::Grpc(12)),
        headers(
            "an unknown method",
            |request| to(request, "/envoy.service.ratelimit.v3.RateLimitService/Evil"),
            End::Grpc(12),
        ),
        headers(
            "an unknown method of the other service",
            |request| to(request, "/envoy.service.auth.v3.Authorization/Evil"),
            End::Grpc(12),
        ),
        headers(
            "a method in another case",
            |request| to(request, "/envoy.service.ratelimit.v3.RateLimitService/shouldratelimit"),
            End::Grpc(12),
        ),
        headers("no method", |request| to(request, "/envoy.service.auth.v3.Authorization/"), End::Grpc(12)),
        headers("an old version", |request| to(request, "/envoy.service.auth.v2.Authorization/Check"), End::Grpc(12)),
        headers("a path of files", |request| to(request, "/../../etc/passwd"), End::Grpc(12)),
        headers("an encoding that no agent has", |request| set(request, "grpc-encoding", "gzip"), End::Grpc(12)),
        headers("an encoding that nobody has", |request| set(request, "grpc-encoding", "evil"), End::Grpc(12)),
        framed("no message", Vec::new(), 13),
        framed("half of the length", vec![0, 0, 0], 13),
        framed("a length without a message", announced(0, 20, ""), 13),
        framed("a length that is longer than the message", announced(0, 2_000, service.good_message()), 13),
        framed("a length that is shorter than the message", announced(0, 1, service.good_message()), 13),
        framed("a length of 4 GB", announced(0, u32::MAX, service.good_message()), 11),
        framed("a length past the cap", announced(0, LEN_MAX + 1, ""), 11),
        framed("a compressed message without an encoding", announced(1, 4, "abcd"), 13),
        framed("an unknown flag", announced(2, 4, "abcd"), 13),
        framed("a negative flag", announced(255, 4, "abcd"), 13),
        framed("text in place of a frame", b"domain=web&descriptors=none".to_vec(), 13),
        framed("a request of HTTP/1 in a stream", b"GET / HTTP/1.1\r\nhost: t\r\n\r\n".to_vec(), 13),
        framed("half of a second message", [good(), vec![0, 0, 0]].concat(), 13),
        coded("a message past the cap", bytes(99, vec![0; LEN_MAX as usize]), 11),
        coded("a message of 1 MB", bytes(1, vec![b'v'; 1 << 20]), 11),
        coded("bytes that are no message", vec![0xff; 9], 13),
        coded("a field with the number 0", vec![0, 0], 13),
        coded("a field with a number past 2^29", [varint(u64::from(u32::MAX)), varint(1)].concat(), 13),
        coded("an unknown kind of field", vec![1 << 3 | 6, 0], 13),
        coded("a number in place of a text", number(1, 5), 13),
        coded("a number of 11 bytes", [vec![99 << 3 & 0x7f; 1], vec![0xff; 11]].concat(), 13),
        coded("half of a number", vec![1 << 3, 0x80], 13),
        coded(
            "a text that is longer than the message",
            [varint(1 << 3 | 2), varint(1_000), b"web".to_vec()].concat(),
            13,
        ),
        coded("a text of 2^63 bytes", [varint(1 << 3 | 2), varint(1 << 63)].concat(), 13),
        coded("a group without an end", vec![15 << 3 | 3], 13),
        coded("an end without a group", vec![15 << 3 | 4], 13),
        coded("1,000 nested groups", [vec![15 << 3 | 3; 1_000], vec![15 << 3 | 4; 1_000]].concat(), 13),
        coded("30,000 groups without an end", vec![15 << 3 | 3; 30_000], 13),
        framed(
            "a call with 60,000 bytes of unknown fields",
            message([service.good_message(), bytes(99, vec![0; 60_000])].concat()),
            0,
        )
        .charging(1),
        framed(
            "a call with 20,000 unknown fields",
            message([service.good_message(), number(9, 1).repeat(20_000)].concat()),
            0,
        )
        .charging(1),
        framed("half of a message that never ends", good()[..12].to_vec(), 4).slow(),
        framed("half of a length that never ends", vec![0, 0], 4).slow(),
        framed("a call that never ends", good(), 4).slow(),
        framed("a call that never begins", Vec::new(), 4).slow(),
    ]
}

fn set(request: &mut Request<Vec<u8>>, name: &'static str, value: &'static str) {
    request.headers_mut().insert(name, value.parse().unwrap());
}

fn to(request: &mut Request<Vec<u8>>, path: &str) {
    *request.uri_mut() = format!("http://t{path}").parse().unwrap();
}
