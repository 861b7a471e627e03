//! One call as Tollgate's JSON: `{"time": "2026-01-02T03:04:05.678Z", "descriptors": {"api_key": "k1"}, "cost": 1}`. The time may also
//! be a number of seconds or ms since the Unix epoch. The default cost is 1.

use serde::Deserialize;
use serde_json::{Map, Value};
use tollgate::Call;
use tollgate_core::call::COST_MAX;

use super::super::instant;
use super::super::log_call::LogCall;

/// Numbers below this one are ms, as of a log that begins at 0. Greater ones tell their unit by their size.
const SMALL_MS_END: u64 = 100_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OwnCall {
    time: Value,
    descriptors: Map<String, Value>,
    #[serde(default = "one")]
    cost: u64,
}

fn one() -> u64 {
    1
}

pub(in crate::replay::log) fn detects(object: &Map<String, Value>) -> bool {
    object.contains_key("descriptors")
}

/// Fails with the reason why the line is not a call.
pub(in crate::replay::log) fn parse(object: &Map<String, Value>) -> Result<LogCall<'static>, String> {
    let line: OwnCall = serde_json::from_value(object.clone().into()).map_err(|error| error.to_string())?;
    let time_ms = time_ms(&line.time).ok_or_else(|| {
        format!("`time` is {}, and must be RFC 3339 text, or seconds or ms from 1970 to 2099", line.time)
    })?;
    if !(1..=COST_MAX).contains(&line.cost) {
        return Err(format!("`cost` is {}; write 1 to {COST_MAX}", line.cost));
    }
    let mut call = LogCall { time_ms, cost: Some(line.cost), is_without_client: true, ..LogCall::default() };
    let mut checked = Call::new();
    for (name, value) in line.descriptors {
        let value = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            _ => return Err(format!("descriptor `{name}` must be a text")),
        };
        checked.add(name.clone().into(), value.clone().into()).map_err(|error| error.to_string())?;
        call.descriptors.push((name.into(), value.into()));
    }
    Ok(call)
}

fn time_ms(time: &Value) -> Option<u64> {
    match time {
        Value::Number(number) => match number.as_u64() {
            Some(ms @ ..SMALL_MS_END) => Some(ms),
            _ => instant::of_number(&number.to_string()),
        },
        Value::String(text) => instant::of_text(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<LogCall<'static>, String> {
        parse(&serde_json::from_str(line).map_err(|error| error.to_string())?)
    }

    #[test]
    fn a_call_reads_with_any_kind_of_time() {
        let call = read(r#"{"time": "1970-01-01T00:00:01.5Z", "descriptors": {"k": "v", "n": 7}, "cost": 3}"#).unwrap();
        let descriptors: Vec<_> = call.descriptors.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!((call.time_ms, call.cost, &descriptors[..]), (1_500, Some(3), &[("k", "v"), ("n", "7")][..]));
        for (time, expected) in [
            ("1500", 1_500),
            ("0", 0),
            ("1731948900", 1_731_948_900_000),
            ("1731948900.25", 1_731_948_900_250),
            ("1731948900250", 1_731_948_900_250),
        ] {
            let call = read(&format!(r#"{{"time": {time}, "descriptors": {{}}}}"#)).unwrap();
            assert_eq!((call.time_ms, call.cost), (expected, Some(1)), "{time}");
        }
        let most = read(r#"{"time": 1, "descriptors": {}, "cost": 9007199254740992}"#).unwrap();
        assert_eq!(most.cost, Some(COST_MAX));
    }

    #[test]
    fn a_bad_line_is_rejected_with_a_reason() {
        for line in [
            r#"{"descriptors": {}}"#,
            r#"{"time": "noon", "descriptors": {}}"#,
            r#"{"time": 18446744073709551615, "descriptors": {}}"#,
            r#"{"time": 1e300, "descriptors": {}}"#,
            r#"{"time": -1, "descriptors": {}}"#,
            r#"{"time": 1, "descriptors": {"a": []}}"#,
            r#"{"time": 1, "descriptors": {"": "a"}}"#,
            r#"{"time": 1, "descriptors": {}, "cost": 0}"#,
            r#"{"time": 1, "descriptors": {}, "cost": 9007199254740993}"#,
            r#"{"time": 1, "descriptors": {}, "costs": 2}"#,
        ] {
            assert!(!read(line).unwrap_err().is_empty(), "{line}");
        }
    }
}
