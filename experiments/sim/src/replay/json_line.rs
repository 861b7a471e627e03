//! One call as JSON: `{"time": "2026-01-02T03:04:05.678Z", "descriptors": {"api_key": "k1"}, "cost": 1}`. The time may also
//! be a number of milliseconds since the Unix epoch. The default cost is 1.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate::Call;
use tollgate_core::call::COST_MAX;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonLineFields {
    time: Value,
    descriptors: Map<String, Value>,
    #[serde(default = "one")]
    cost: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonLine {
    pub(super) time_ms: u64,
    pub(super) call: Call<'static>,
}

fn one() -> u64 {
    1
}

/// Fails with the reason why the line is not a call.
pub(super) fn parse(line: &str) -> Result<JsonLine, String> {
    let fields: JsonLineFields = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let time_ms = match &fields.time {
        Value::Number(ms) => ms.as_u64(),
        Value::String(text) => {
            text.parse::<jiff::Timestamp>().ok().and_then(|at| u64::try_from(at.as_millisecond()).ok())
        }
        _ => None,
    };
    let time_ms = time_ms.ok_or("`time` must be RFC 3339 text or milliseconds since 1970")?;
    if !(1..=COST_MAX).contains(&fields.cost) {
        return Err(format!("`cost` is {}; write 1 to {COST_MAX}", fields.cost));
    }
    let mut call = Call::new().costing(fields.cost);
    for (name, value) in fields.descriptors {
        let value = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(format!("descriptor `{name}` must be a text")),
        };
        call.add(name.into(), value.into()).map_err(|error| error.to_string())?;
    }
    Ok(JsonLine { time_ms, call })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_reads_with_either_kind_of_time() {
        let read =
            parse(r#"{"time": "1970-01-01T00:00:01.5Z", "descriptors": {"k": "v", "n": 7}, "cost": 3}"#).unwrap();
        assert_eq!(read, JsonLine { time_ms: 1_500, call: Call::new().with("k", "v").with("n", "7").costing(3) });
        assert_eq!(parse(r#"{"time": 1500, "descriptors": {}}"#).unwrap().call.cost(), 1);
        assert_eq!(parse(r#"{"time": 1, "descriptors": {}, "cost": 9007199254740992}"#).unwrap().call.cost(), COST_MAX);
    }

    #[test]
    fn a_bad_line_is_rejected_with_a_reason() {
        for line in [
            "{",
            r#"{"descriptors": {}}"#,
            r#"{"time": "noon", "descriptors": {}}"#,
            r#"{"time": 1, "descriptors": {"a": []}}"#,
            r#"{"time": 1, "descriptors": {"": "a"}}"#,
            r#"{"time": 1, "descriptors": {}, "cost": 0}"#,
            r#"{"time": 1, "descriptors": {}, "cost": 9007199254740993}"#,
            r#"{"time": 1, "descriptors": {}, "costs": 2}"#,
        ] {
            assert!(!parse(line).unwrap_err().is_empty(), "{line}");
        }
    }
}
