//! Table of the JSON formats of servers and clouds.

use super::fields::JsonFields;

/// Format without fields, from which the others are made.
const NO_FIELDS: JsonFields = JsonFields {
    signature: &[],
    time: &[],
    client: &[],
    is_first_client: true,
    request: &[],
    method: &[],
    target: &[],
    status: &[],
    user: &[],
    user_agent: &[],
};

/// Access log of Caddy.
pub(in crate::replay::log) static CADDY: JsonFields = JsonFields {
    signature: &["request.proto", "request.remote_ip", "request.remote_addr"],
    time: &["ts"],
    client: &["request.client_ip", "request.remote_ip", "request.remote_addr"],
    method: &["request.method"],
    target: &["request.uri"],
    status: &["status"],
    user: &["user_id"],
    user_agent: &["request.headers.User-Agent"],
    ..NO_FIELDS
};

/// Access log of Traefik.
pub(in crate::replay::log) static TRAEFIK: JsonFields = JsonFields {
    signature: &["ClientHost", "ClientAddr"],
    time: &["StartUTC", "StartLocal", "time"],
    client: &["ClientHost", "ClientAddr"],
    method: &["RequestMethod"],
    target: &["RequestPath"],
    status: &["DownstreamStatus", "OriginStatus"],
    user: &["ClientUsername"],
    user_agent: &["request_User-Agent"],
    ..NO_FIELDS
};

/// HTTP load balancers of Google Cloud.
pub(in crate::replay::log) static GOOGLE: JsonFields = JsonFields {
    signature: &["httpRequest.remoteIp"],
    time: &["timestamp", "receiveTimestamp"],
    client: &["httpRequest.remoteIp"],
    method: &["httpRequest.requestMethod"],
    target: &["httpRequest.requestUrl"],
    status: &["httpRequest.status"],
    user_agent: &["httpRequest.userAgent"],
    ..NO_FIELDS
};

/// Application Gateway and Front Door of Azure.
pub(in crate::replay::log) static AZURE: JsonFields = JsonFields {
    signature: &["properties.clientIP", "properties.clientIp"],
    time: &["time", "timeStamp", "timestamp"],
    client: &["properties.clientIP", "properties.clientIp"],
    method: &["properties.httpMethod"],
    target: &["properties.requestUri"],
    status: &["properties.httpStatus", "properties.httpStatusCode"],
    user_agent: &["properties.userAgent"],
    ..NO_FIELDS
};

/// HTTP requests of Cloudflare's Logpush.
pub(in crate::replay::log) static CLOUDFLARE: JsonFields = JsonFields {
    signature: &["ClientIP"],
    time: &["EdgeStartTimestamp", "EdgeEndTimestamp"],
    client: &["ClientIP"],
    method: &["ClientRequestMethod"],
    target: &["ClientRequestURI", "ClientRequestPath"],
    status: &["EdgeResponseStatus"],
    user_agent: &["ClientRequestUserAgent"],
    ..NO_FIELDS
};

/// Names that formats of nginx, Apache, Envoy, API gateways and common guides use.
pub(in crate::replay::log) static USUAL: JsonFields = JsonFields {
    time: &[
        "time",
        "timestamp",
        "@timestamp",
        "ts",
        "time_iso8601",
        "time_local",
        "msec",
        "start_time",
        "started_at",
        "timeStamp",
        "timestamp_ms",
        "requestTimeEpoch",
        "requestTime",
        "datetime",
        "date",
        "eventTime",
    ],
    client: &[
        "client_ip",
        "clientip",
        "clientIp",
        "clientIP",
        "client",
        "client.ip",
        "client.address",
        "remote_addr",
        "remote_ip",
        "remoteIP",
        "remoteIp",
        "remote_host",
        "remoteHost",
        "remote_address",
        "remoteAddr",
        "remoteAddress",
        "remote",
        "ip",
        "ip_address",
        "source_ip",
        "sourceIp",
        "source.ip",
        "source.address",
        "src_ip",
        "c-ip",
        "nginx.remote_addr",
        "realip",
        "real_ip",
        "httpRequest.clientIp",
        "downstream_remote_address",
        "downstream_remote_address_without_port",
    ],
    is_first_client: false,
    request: &["request", "nginx.request"],
    method: &[
        "request_method",
        "method",
        "http_method",
        "httpMethod",
        "verb",
        "http.request.method",
        "request.method",
        "httpRequest.httpMethod",
        "cs-method",
    ],
    target: &[
        "request_uri",
        "requestUri",
        "uri",
        "path",
        "url",
        "request_path",
        "requestPath",
        "resourcePath",
        "url.original",
        "url.path",
        "request.uri",
        "httpRequest.uri",
        "cs-uri-stem",
    ],
    status: &[
        "status",
        "status_code",
        "statusCode",
        "response_code",
        "response.status",
        "response",
        "code",
        "http.response.status_code",
        "sc-status",
    ],
    user: &["remote_user", "user", "user_name"],
    user_agent: &[
        "http_user_agent",
        "user_agent",
        "userAgent",
        "user-agent",
        "agent",
        "user_agent.original",
        "cs(User-Agent)",
    ],
    ..NO_FIELDS
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_gives_time_client_and_request() {
        let caddy = r#"{"ts": 1731948900.27, "request": {"remote_ip": "10.0.0.3", "client_ip": "203.0.113.7", "proto": "HTTP/2.0", "method": "GET", "uri": "/a", "headers": {"User-Agent": ["x"]}}, "user_id": "ann", "status": 200}"#;
        let caddy_2_4 = r#"{"ts": 1731948900.27, "request": {"remote_addr": "203.0.113.7:5", "proto": "HTTP/2.0", "method": "GET", "uri": "/a", "headers": {"User-Agent": ["x"]}}, "user_id": "ann", "status": 200}"#;
        let traefik = r#"{"ClientAddr": "203.0.113.7:5", "ClientHost": "203.0.113.7", "ClientUsername": "ann", "DownstreamStatus": 200, "RequestMethod": "GET", "RequestPath": "/a", "StartUTC": "2024-11-18T16:55:00.270Z", "request_User-Agent": "x", "time": "2024-11-18T16:55:09Z"}"#;
        let google = r#"{"httpRequest": {"remoteIp": "203.0.113.7", "requestMethod": "GET", "requestUrl": "https://example.com/a", "status": 200, "userAgent": "x"}, "timestamp": "2024-11-18T16:55:00.270Z"}"#;
        let gateway = r#"{"time": "2024-11-18T16:55:00.2700000Z", "properties": {"clientIP": "203.0.113.7", "clientPort": 5, "httpMethod": "GET", "requestUri": "/a", "userAgent": "x", "httpStatus": 200}}"#;
        let front_door = r#"{"time": "2024-11-18T16:55:00.2700000Z", "properties": {"clientIp": "203.0.113.7", "socketIp": "198.51.100.9", "httpMethod": "GET", "requestUri": "https://example.com:443/a", "userAgent": "x", "httpStatusCode": "200"}}"#;
        let cloudflare = r#"{"ClientIP": "203.0.113.7", "EdgeStartTimestamp": 1731948900270000000, "ClientRequestMethod": "GET", "ClientRequestURI": "/a", "EdgeResponseStatus": 200, "ClientRequestUserAgent": "x"}"#;
        let nginx = r#"{"msec": "1731948900.270", "remote_addr": "203.0.113.7", "request": "GET /a HTTP/1.1", "status": "200", "remote_user": "ann", "http_user_agent": "x"}"#;
        let apache = r#"{"time": "[18/Nov/2024:16:55:00.270 +0000]", "remoteIP": "203.0.113.7", "host": "example.com", "request": "/a", "method": "GET", "status": "200", "userAgent": "x"}"#;
        let ecs = r#"{"@timestamp": "2024-11-18T16:55:00.270Z", "source": {"ip": "203.0.113.7"}, "http": {"request": {"method": "GET"}, "response": {"status_code": 200}}, "url": {"original": "/a"}, "user_agent": {"original": "x"}}"#;
        for (fields, line, user) in [
            (&CADDY, caddy, Some("ann")),
            (&CADDY, caddy_2_4, Some("ann")),
            (&TRAEFIK, traefik, Some("ann")),
            (&GOOGLE, google, None),
            (&AZURE, gateway, None),
            (&AZURE, front_door, None),
            (&CLOUDFLARE, cloudflare, None),
            (&USUAL, nginx, Some("ann")),
            (&USUAL, apache, None),
            (&USUAL, ecs, None),
        ] {
            let object = serde_json::from_str(line).unwrap();
            assert!(fields.detects(&object), "{line}");
            let call = fields.parse(&object, None).unwrap_or_else(|error| panic!("{error}: {line}"));
            let request = (call.request.method.as_deref(), call.request.path.as_deref(), call.status.as_deref());
            assert_eq!(request, (Some("GET"), Some("/a"), Some("200")), "{line}");
            assert_eq!((call.time_ms, call.user.as_deref()), (1_731_948_900_270, user), "{line}");
            assert!(call.addresses[0].text.starts_with("203.0.113.7"), "{line}");
            assert_eq!(call.user_agent.as_deref(), Some("x"), "{line}");
        }
    }

    #[test]
    fn a_line_without_a_client_or_with_a_wrong_time_is_refused_with_the_field() {
        for (line, said) in [
            (r#"{"time": "2024-11-18T16:55:00Z", "level": "info"}"#, "(`level`, `time`)"),
            (r#"{"remote_addr": "203.0.113.7", "msg": "x"}"#, "name it with --json time=FIELD"),
            (r#"{"time": "noon", "remote_addr": "203.0.113.7"}"#, "`time` is `noon`, which is no time"),
            (r#"{"time": 18446744073709551615, "remote_addr": "203.0.113.7"}"#, "which is no time"),
        ] {
            let reason = USUAL.parse(&serde_json::from_str(line).unwrap(), None).unwrap_err();
            assert!(reason.contains(said), "{reason}");
        }
    }
}
