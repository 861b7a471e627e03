//! Table of the formats that are read. The first one that detects a line reads it.

use serde_json::{Map, Value};

use super::json::{self, JsonFields};
use super::log_call::LogCall;
use super::{aws_balancer, combined, envoy, haproxy, w3c};

/// Format of a log's lines.
pub(super) struct LogFormat {
    pub(super) name: &'static str,
    reader: FormatReader,
}

/// Line of a log, and its object if it is JSON.
pub(super) struct LogText<'a> {
    pub(super) text: &'a str,
    pub(super) object: Option<Map<String, Value>>,
}

/// Facts that a reader needs beside the line.
#[derive(Clone, Copy, Debug)]
pub(super) struct FormatFacts<'a> {
    /// Columns of the last header.
    pub(super) columns: &'a [String],
    /// Field that the user names as the client.
    pub(super) client: Option<&'a str>,
    /// Fields of JSON that the user names, with their paths.
    pub(super) map: &'a [(String, String)],
}

enum FormatReader {
    /// JSON with the fields that the user names.
    Mapped,
    /// Calls of Tollgate in JSON.
    Own,
    Json(&'static JsonFields),
    /// Columns that a header names.
    Columns,
    Text {
        detects: fn(&str) -> bool,
        parse: fn(&str) -> Result<LogCall<'_>, String>,
    },
}

impl LogFormat {
    /// Reads a line; nothing if it is of another format.
    pub(super) fn read<'a>(&self, line: &LogText<'a>, facts: FormatFacts<'a>) -> Option<Result<LogCall<'a>, String>> {
        match (&self.reader, &line.object) {
            (FormatReader::Mapped, Some(object)) => {
                (!facts.map.is_empty()).then(|| json::parse_mapped(object, facts.map, facts.client))
            }
            (FormatReader::Own, Some(object)) => json::detects_own(object).then(|| json::parse_own(object)),
            (FormatReader::Json(fields), Some(object)) => {
                fields.detects(object).then(|| fields.parse(object, facts.client))
            }
            (FormatReader::Columns, None) => {
                w3c::detects(line.text).then(|| w3c::parse(line.text, facts.columns, facts.client))
            }
            (FormatReader::Text { detects, parse }, None) => detects(line.text).then(|| parse(line.text)),
            _ => None,
        }
    }
}

const fn text(
    name: &'static str,
    detects: fn(&str) -> bool,
    parse: fn(&str) -> Result<LogCall<'_>, String>,
) -> LogFormat {
    LogFormat { name, reader: FormatReader::Text { detects, parse } }
}

const fn json_of(name: &'static str, fields: &'static JsonFields) -> LogFormat {
    LogFormat { name, reader: FormatReader::Json(fields) }
}

/// Name of the format that goes by the names of fields alone.
pub(super) const USUAL_NAME: &str = "JSON with usual names (nginx, Apache)";

pub(super) static FORMATS: [LogFormat; 15] = [
    LogFormat { name: "JSON with named fields", reader: FormatReader::Mapped },
    LogFormat { name: "JSON of Tollgate", reader: FormatReader::Own },
    json_of("JSON of Caddy", &json::CADDY),
    json_of("JSON of Traefik", &json::TRAEFIK),
    json_of("JSON of Google Cloud", &json::GOOGLE),
    json_of("JSON of Azure", &json::AZURE),
    json_of("JSON of Cloudflare", &json::CLOUDFLARE),
    json_of(USUAL_NAME, &json::USUAL),
    text("application load balancer of AWS", aws_balancer::detects_alb, aws_balancer::parse_alb),
    text("classic load balancer of AWS", aws_balancer::detects_classic, aws_balancer::parse_classic),
    text("network load balancer of AWS (connections)", aws_balancer::detects_nlb, aws_balancer::parse_nlb),
    LogFormat { name: "columns of the W3C (CloudFront, IIS)", reader: FormatReader::Columns },
    text("Envoy", envoy::detects, envoy::parse),
    text("HAProxy", haproxy::detects, haproxy::parse),
    text("common or combined (nginx, Apache)", |line| line.contains('[') || line.contains('"'), combined::parse),
];
