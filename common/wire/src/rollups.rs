//! Records of the topics `rollups` and `live`: JSON lines, one for each rollup, so that any warehouse can read them.
//!
//! docs/analytics.md describes the columns. A number that is 0 is left out, except for the names of the rollup.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_core::clock::Timestamp;
use tollgate_core::counter::Partition;
use tollgate_core::messages::rollups::{
    LimitUse, MINUTE_MS, ROLLUPS_LEN_MAX, Rollup, RollupBatch, SECOND_MS, Subject, Totals,
};

use super::{RECORD_LEN_MAX, Record, VERSION, WireError, check};

/// One line.
#[derive(Serialize, Deserialize)]
struct Line {
    version: u32,
    aggregator: Arc<str>,
    partition: Partition,
    /// In hexadecimal digits: a number of 64 bits is none of JavaScript.
    log: String,
    as_of: u64,
    start_ms: u64,
    size_ms: u64,
    by: By,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    rule: Arc<str>,
    #[serde(default, skip_serializing_if = "str::is_empty")]
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "is_zero")]
    admitted: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    denied_count: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    denied_list: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    denied_late: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    denied_fallback: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    denied_emergency: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    shadow_denied: u64,
    #[serde(default, skip_serializing_if = "is_none_of_units")]
    units: i64,
    #[serde(default, skip_serializing_if = "is_zero")]
    by_local: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    by_store: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    by_signal: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    by_fallback: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    quota: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    window_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    used: Option<u64>,
    #[serde(default, skip_serializing_if = "is_zero")]
    generation: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    callers: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    callers_error: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    missing_max: u64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum By {
    Calls,
    Rule,
    Caller,
    Endpoint,
    Tier,
    Agent,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_none_of_units(units: &i64) -> bool {
    *units == 0
}

impl Record for RollupBatch {
    fn encode(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(256 * self.rollups.len());
        for rollup in &self.rollups {
            // A line has no value that JSON lacks.
            let _ = serde_json::to_writer(&mut text, &line(self, rollup));
            text.push(b'\n');
        }
        text
    }

    fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        check(bytes.len() <= RECORD_LEN_MAX, "the record exceeds the maximum length of 1 MiB")?;
        let mut batch: Option<Self> = None;
        for line in serde_json::Deserializer::from_slice(bytes).into_iter::<Line>() {
            let line = line.map_err(|_| WireError::Invalid("a line is no rollup"))?;
            if line.version != VERSION {
                return Err(WireError::Version(line.version));
            }
            let (aggregator, partition) = (line.aggregator.clone(), line.partition);
            let log =
                u64::from_str_radix(&line.log, 16).map_err(|_| WireError::Invalid("`log` is no hexadecimal number"))?;
            let as_of = line.as_of;
            let known = batch.get_or_insert_with(|| Self { aggregator, partition, log, as_of, rollups: Vec::new() });
            let is_same = (known.partition, known.log, known.as_of) == (partition, log, as_of);
            check(is_same, "the lines of a record differ in partition, log or offset")?;
            check(known.rollups.len() < ROLLUPS_LEN_MAX, "the record has too many lines")?;
            known.rollups.push(rollup(line)?);
        }
        batch.ok_or(WireError::Invalid("the record has no line"))
    }
}

fn line(batch: &RollupBatch, rollup: &Rollup) -> Line {
    let (by, rule, name) = match &rollup.subject {
        Subject::Calls => (By::Calls, None, None),
        Subject::Rule(rule) => (By::Rule, Some(rule), None),
        Subject::Caller { rule, caller } => (By::Caller, Some(rule), Some(caller)),
        Subject::Endpoint(name) => (By::Endpoint, None, Some(name)),
        Subject::Tier(name) => (By::Tier, None, Some(name)),
        Subject::Agent(name) => (By::Agent, None, Some(name)),
    };
    let Totals { admitted, denied, shadow_denied, units, by_source } = rollup.totals;
    let [denied_count, denied_list, denied_late, denied_fallback, denied_emergency] = denied;
    let [by_local, by_store, by_signal, by_fallback] = by_source;
    let LimitUse { quota, window_ms, used, generation, callers, callers_error, missing_max } =
        rollup.limit.unwrap_or_default();
    Line {
        version: VERSION,
        aggregator: batch.aggregator.clone(),
        partition: batch.partition,
        log: format!("{:x}", batch.log),
        as_of: batch.as_of,
        start_ms: rollup.start.as_ms(),
        size_ms: rollup.size_ms,
        by,
        rule: rule.cloned().unwrap_or_default(),
        name: name.cloned().unwrap_or_default(),
        admitted,
        denied_count,
        denied_list,
        denied_late,
        denied_fallback,
        denied_emergency,
        shadow_denied,
        units,
        by_local,
        by_store,
        by_signal,
        by_fallback,
        quota,
        window_ms,
        used,
        generation,
        callers,
        callers_error,
        missing_max,
    }
}

fn rollup(line: Line) -> Result<Rollup, WireError> {
    let Line { size_ms, start_ms, rule, name, .. } = line;
    check([SECOND_MS, MINUTE_MS].contains(&size_ms), "a rollup is neither of a second nor of a minute")?;
    check(start_ms.is_multiple_of(size_ms), "a rollup does not start at a second or a minute")?;
    let subject = match line.by {
        By::Calls => Subject::Calls,
        By::Rule => Subject::Rule(rule),
        By::Caller => Subject::Caller { rule, caller: name },
        By::Endpoint => Subject::Endpoint(name),
        By::Tier => Subject::Tier(name),
        By::Agent => Subject::Agent(name),
    };
    let totals = Totals {
        admitted: line.admitted,
        denied: [line.denied_count, line.denied_list, line.denied_late, line.denied_fallback, line.denied_emergency],
        shadow_denied: line.shadow_denied,
        units: line.units,
        by_source: [line.by_local, line.by_store, line.by_signal, line.by_fallback],
    };
    let limit = LimitUse {
        quota: line.quota,
        window_ms: line.window_ms,
        used: line.used,
        generation: line.generation,
        callers: line.callers,
        callers_error: line.callers_error,
        missing_max: line.missing_max,
    };
    let limit = (limit != LimitUse::default()).then_some(limit);
    Ok(Rollup { start: Timestamp::from_ms(start_ms), size_ms, subject, totals, limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch() -> RollupBatch {
        let totals =
            Totals { admitted: 5, denied: [1, 2, 3, 4, 6], shadow_denied: 7, units: -8, by_source: [1, 2, 3, 15] };
        let limit = Some(LimitUse {
            quota: 9,
            window_ms: 60_000,
            used: Some(0),
            generation: 3,
            callers: 2,
            callers_error: 1,
            missing_max: 4,
        });
        let subjects = [
            Subject::Calls,
            Subject::Rule("r".into()),
            Subject::Caller { rule: "r".into(), caller: "api_key=\"é\n".into() },
            Subject::Endpoint("/x".into()),
            Subject::Tier("gold".into()),
            Subject::Agent("gw-1".into()),
        ];
        let rollup = |(place, subject): (u64, Subject)| Rollup {
            start: Timestamp::from_ms(60_000 * place),
            size_ms: if place == 1 { SECOND_MS } else { MINUTE_MS },
            subject,
            totals: if place == 0 { Totals::default() } else { totals },
            limit: limit.filter(|_| place > 0),
        };
        RollupBatch {
            aggregator: "agg-1".into(),
            partition: 3,
            log: u64::MAX,
            as_of: 77,
            rollups: (0..).zip(subjects).map(rollup).collect(),
        }
    }

    #[test]
    fn a_batch_is_read_as_it_was_written_and_each_line_is_json() {
        let text = String::from_utf8(batch().encode()).expect("text");
        assert_eq!(text.lines().count(), 6);
        assert_eq!(
            text.lines().next(),
            Some(
                r#"{"version":1,"aggregator":"agg-1","partition":3,"log":"ffffffffffffffff","as_of":77,"start_ms":0,"size_ms":60000,"by":"calls"}"#
            )
        );
        assert_eq!(RollupBatch::decode(text.as_bytes()).expect("a batch"), batch());
    }

    #[test]
    fn a_record_of_a_stranger_is_refused() {
        let text = String::from_utf8(batch().encode()).expect("text");
        let cases = [
            (String::new(), "the record has no line"),
            ("{}".to_owned(), "a line is no rollup"),
            (text.replace("\"version\":1", "\"version\":2"), "unknown record version 2"),
            (text.replacen("\"partition\":3", "\"partition\":4", 1), "differ in partition"),
            (text.replace("\"size_ms\":60000", "\"size_ms\":61"), "neither of a second nor of a minute"),
            (text.replace("\"start_ms\":120000", "\"start_ms\":120001"), "does not start at a second"),
            (text.replace("ffffffffffffffff", "g"), "no hexadecimal number"),
        ];
        for (text, expected) in cases {
            let error = RollupBatch::decode(text.as_bytes()).expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
