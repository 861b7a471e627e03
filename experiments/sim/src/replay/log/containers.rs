//! Lines in the envelopes of container runtimes and log shippers: Docker's JSON file, the CRI of Kubernetes, and others in JSON.
//!
//! A runtime splits a long line. Its parts are joined here, for each stream of the container.

use serde_json::{Map, Value};

use super::instant;
use super::json::text_at;

/// Keys under which envelopes hold the line.
const KEYS: [&str; 8] = ["log", "message", "MESSAGE", "textPayload", "line", "msg", "event.original", "_raw"];

/// Line of a container, or a part of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ContainerText<'a> {
    /// True for the stream of errors.
    pub(super) is_stderr: bool,
    /// True if the next text of the stream continues the line.
    pub(super) is_part: bool,
    pub(super) text: &'a str,
}

/// Splits off the prefix of the CRI: `2024-11-18T16:55:00.347712782Z stdout F `.
pub(super) fn of_cri(line: &str) -> Option<ContainerText<'_>> {
    let mut fields = line.splitn(4, ' ');
    let (time, stream, tag, text) = (fields.next()?, fields.next()?, fields.next()?, fields.next().unwrap_or_default());
    let is_stream = matches!(stream, "stdout" | "stderr");
    let tag = tag.split(':').next().filter(|tag| matches!(*tag, "F" | "P"))?;
    (is_stream && instant::of_text(time).is_some()).then_some(ContainerText {
        is_stderr: stream == "stderr",
        is_part: tag == "P",
        text,
    })
}

/// Returns the line in an envelope of JSON. In Docker's file, a text without a line break is a part.
pub(super) fn of_json(object: &Map<String, Value>) -> Option<(bool, bool, String)> {
    let (key, text) = KEYS.iter().find_map(|key| Some((*key, text_at(object, key)?)))?;
    let stream = text_at(object, "stream");
    let is_of_docker = key == "log" && stream.is_some() && object.len() <= 4 && object.contains_key("time");
    let is_part = is_of_docker && !text.ends_with('\n');
    Some((stream.is_some_and(|stream| stream == "stderr"), is_part, text.trim_end_matches(['\n', '\r']).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_cri_is_split() {
        for (line, expected) in [
            ("2024-11-18T16:55:00.347712782Z stdout F a b", Some((false, false, "a b"))),
            ("2024-11-18T16:55:00.347712782+01:00 stderr P a ", Some((true, true, "a "))),
            ("2024-11-18T16:55:00.347712782Z stdout F", Some((false, false, ""))),
            ("2024-11-18T16:55:00Z stdout X a", None),
            ("2024-11-18T16:55:00Z web1 F a", None),
            ("stdout F a", None),
        ] {
            let found = of_cri(line).map(|found| (found.is_stderr, found.is_part, found.text));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn an_envelope_of_json_is_opened() {
        for (line, expected) in [
            (r#"{"log": "a\n", "stream": "stdout", "time": "t"}"#, Some((false, false, "a"))),
            (r#"{"log": "a", "stream": "stderr", "time": "t"}"#, Some((true, true, "a"))),
            (r#"{"log": "a", "kubernetes": {}}"#, Some((false, false, "a"))),
            (r#"{"message": "a", "@timestamp": "t"}"#, Some((false, false, "a"))),
            (r#"{"event": {"original": "a"}}"#, Some((false, false, "a"))),
            (r#"{"log": {"level": "a"}}"#, None),
        ] {
            let found = of_json(&serde_json::from_str(line).unwrap());
            let found = found.as_ref().map(|(stderr, part, text)| (*stderr, *part, &**text));
            assert_eq!(found, expected, "{line}");
        }
    }
}
