//! Messages that the services can decode, with hostile contents.

use crate::requests::{End, HostileRequest, Service};
use crate::wire::{bytes, message, number};

/// Length of a text that is nearly as long as a message may be.
const LONG: usize = 60_000;

pub(crate) fn requests(service: Service) -> Vec<HostileRequest> {
    match service {
        Service::RateLimit => rate_limits(),
        Service::ExternalAuth => authorizations(),
    }
}

fn entry(key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    bytes(1, [bytes(1, key), bytes(2, value)].concat())
}

fn rate_limits() -> Vec<HostileRequest> {
    let own = || entry("api_key", "k1");
    let request = |name, body: Vec<u8>, code| {
        HostileRequest::new(name, Service::RateLimit.request(message(body)), End::Grpc(code))
    };
    let descriptor =
        |name, descriptor: Vec<u8>, code| request(name, [bytes(1, "web"), bytes(2, descriptor)].concat(), code);
    let of = |domain: &[u8]| [bytes(1, domain), bytes(2, own())].concat();
    let limit = |requests, unit| bytes(2, [number(1, requests), number(2, unit)].concat());
    let hits = |hits| bytes(3, number(1, hits));
    let nested = (0..200).fold(Vec::new(), |inner, _| bytes(2, inner));
    vec![
        request("an empty message", Vec::new(), 3),
        request("no domain", bytes(2, own()), 3),
        request("an empty domain", of(b""), 3),
        request("an unknown domain", of(b"nowhere"), 0).charging(1),
        request("a domain that is no UTF-8", of(b"\xff\xfe"), 13),
        request("a long domain", of(&[b'd'; LONG]), 3),
        request("no descriptors", bytes(1, "web"), 3),
        request("65 descriptors", [bytes(1, "web"), bytes(2, own()).repeat(65)].concat(), 3),
        request("10,000 descriptors without entries", [bytes(1, "web"), bytes(2, "").repeat(10_000)].concat(), 3),
        request("64 equal descriptors", [bytes(1, "web"), bytes(2, own()).repeat(64)].concat(), 0).charging(64),
        request("messages in messages", [bytes(1, "web"), nested].concat(), 13),
        request("hits of 2^32 - 1", [of(b"web"), number(3, u64::from(u32::MAX))].concat(), 0),
        request("hits of 2^64 - 1", [of(b"web"), number(3, u64::MAX)].concat(), 0),
        request("hits in a text", [of(b"web"), bytes(3, "1")].concat(), 13),
        descriptor("no entries", Vec::new(), 3),
        descriptor("an entry without a key", entry("", "k1"), 3),
        descriptor("an entry without key and value", bytes(1, ""), 3),
        descriptor("32 entries", own().repeat(32), 3),
        descriptor("4,000 entries", own().repeat(4_000), 3),
        descriptor("a long key", entry([b'k'; LONG], "v"), 3),
        descriptor("a key that is no UTF-8", entry(b"\xff", "v"), 0),
        descriptor("a long value", entry("api_key", [b'v'; LONG]), 0),
        descriptor("a value that is no UTF-8", entry("api_key", b"k1\xff"), 0),
        descriptor("a value with zero bytes", entry("api_key", b"k1\0"), 0),
        descriptor("a value with lines", entry("api_key", "k1\r\nx-evil: 1"), 0),
        descriptor("own hits of 2^64 - 1", [own(), hits(u64::MAX)].concat(), 3),
        descriptor("own hits past 2^53", [own(), hits((1 << 53) + 1)].concat(), 3),
        descriptor("own hits above the quota", [own(), hits(1 << 53)].concat(), 0),
        descriptor("no hits", [own(), hits(0)].concat(), 0),
        descriptor("negative hits", [own(), hits(1_000), number(4, 1)].concat(), 3),
        descriptor("negative hits of 2^64 - 1", [own(), hits(u64::MAX), number(4, 1)].concat(), 3),
        descriptor("a limit of 0", [own(), limit(0, 1)].concat(), 3),
        descriptor("a limit of 2^32 - 1", [own(), limit(u64::from(u32::MAX), 1)].concat(), 3),
        descriptor("a limit in an unknown unit", [own(), limit(5, 99)].concat(), 3),
        descriptor("a limit in a negative unit", [own(), limit(5, u64::MAX)].concat(), 3),
    ]
}

fn authorizations() -> Vec<HostileRequest> {
    let request = |name, body: Vec<u8>, code| {
        HostileRequest::new(name, Service::ExternalAuth.request(message(body)), End::Grpc(code))
    };
    let http = |name, fields: Vec<u8>| request(name, bytes(1, bytes(4, bytes(2, fields))), 0);
    let header = |name: &[u8], value: &[u8]| bytes(3, [bytes(1, name), bytes(2, value)].concat());
    let raw = |name: &[u8], value: &[u8]| bytes(1, [bytes(1, name), bytes(3, value)].concat());
    let own = || header(b"x-api-key", b"k1");
    let wrapped = |levels| (0..levels).fold(Vec::new(), |inner, _| bytes(1, inner));
    let many: Vec<u8> = (0..2_000).flat_map(|place| header(format!("x-{place}").as_bytes(), b"v")).collect();
    vec![
        request("an empty message", Vec::new(), 3),
        request("no attributes", bytes(1, ""), 3),
        request("no request", bytes(1, bytes(4, "")), 3),
        request("attributes in attributes", wrapped(200), 3),
        request("a peer in place of a request", bytes(1, bytes(1, bytes(1, "evil"))), 3),
        request("a request that is a text", bytes(1, bytes(4, "evil")), 13),
        request("a path that is no UTF-8", bytes(1, bytes(4, bytes(2, bytes(4, b"/\xff")))), 13),
        request("a header that is no UTF-8", bytes(1, bytes(4, bytes(2, header(b"x-api-key", b"\xff")))), 13),
        http("no fields", Vec::new()),
        http("an empty path", bytes(4, "")),
        http("a path without a slash", bytes(4, "evil")),
        http("a path of two hosts", bytes(4, "//evil.example/search")),
        http("a path with zero bytes", bytes(4, "/\0\0")),
        http("a path with bad escapes", bytes(4, "/%zz%%%0")),
        http("a path of a thousand parents", bytes(4, "/..".repeat(1_000))),
        http("a long path", bytes(4, "/".repeat(LONG))),
        http("a long query", bytes(4, format!("/search?{}", "a&".repeat(LONG / 2)))),
        http("a method of none", bytes(2, "E V I L\r\n")),
        http("a long method", bytes(2, "M".repeat(LONG))),
        http("2,000 headers", many.clone()),
        http("2,000 headers and a key", [many, own()].concat()).charging(1),
        http("headers without names", header(b"", b"v").repeat(5_000)),
        http("a header with a colon", header(b":path", b"/evil")),
        http("a header with spaces", header(b"x api key", b"k1")),
        http("a header with lines", header(b"x-api-key", b"k1\r\nx-evil: 1")),
        http("a header with zero bytes", header(b"x-api-key", b"k1\0")),
        http("a header of control characters", header(b"\x01\x02", b"v")),
        http("a long header", header(b"x-api-key", &[b'k'; LONG])),
        http("a long name of a header", header(&[b'x'; LONG], b"v")),
        http("a key in a raw header that is no text", bytes(13, raw(b"x-api-key", b"\xff\xfe"))),
        http("a key in a raw header", bytes(13, raw(b"x-api-key", b"k1"))).charging(1),
        http("5,000 raw headers without names", bytes(13, bytes(1, "").repeat(5_000))),
        http("addresses that are none", header(b"x-forwarded-for", b"evil, , ::::, 999.1.1.1")),
        http("20,000 addresses", header(b"x-forwarded-for", "1.1.1.1,".repeat(LONG / 8).as_bytes())),
        http("a token that is none", header(b"authorization", format!("Bearer {}", "a.".repeat(LONG / 2)).as_bytes())),
    ]
}
