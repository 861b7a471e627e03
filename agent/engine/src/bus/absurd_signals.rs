//! Judgement of records of `signals`: a forged or misdirected one must not replace the counts of all real ones.
//!
//! An agent follows the greatest offset, so an offset beyond the end of the log would make it ignore every later
//! signal. The agent does not read that log: it asks the bus for the end of the log when an offset is far ahead of the
//! ones before, and when the identity of the log is another one. This is rare, because offsets advance in small steps.
//! An offset that is forged and only a little beyond the end is followed: then all real records are behind it. If
//! nothing but such records comes for a second, the agent asks for the end, too, and begins anew. A count that is wrong
//! and plausible cannot be recognised; real signals replace it within two seconds.

use tollgate_core::clock::{CLOCK_ERROR_MAX_MS, Timestamp};
use tollgate_core::messages::signals::{LogEnd, SignalBatch, THRESHOLD_PERMILLE_MAX};
use tollgate_core::window::Ring;

use crate::bus::signals::Followed;

/// Number of records by which the counted offset may advance without a look at the end of the log.
const ADVANCE_RECORDS_MAX: u64 = 10_000;
/// Time for which all records may be behind the counted offset without a look at the end of the log, in ms. Aggregators
/// write at least one record every 200 ms.
const BEHIND_MS_MAX: u64 = 1_000;
/// Time after a record's append time in which a counted sub-window may begin, in ms. It is longer than the longest
/// sub-window, because a change of the window moves units to the end of their sub-window.
const AHEAD_MS_MAX: u64 = 7 * 24 * 3_600_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It may be a record of an aggregator.
    Credible,
    NeedsLogEnd,
    /// It may be a record of an aggregator. An earlier record was not, because it counted beyond the end of the log.
    CredibleAgain,
    /// It cannot be true, for this reason.
    Absurd(String),
}

/// Judges a record that the bus appended at this time. `followed` is the record that the agent follows; none if there
/// is no such partition.
pub(crate) fn judge(
    followed: Option<Followed>,
    appended: Timestamp,
    batch: &SignalBatch,
    end: Option<LogEnd>,
) -> Judgement {
    let SignalBatch { partition, log, as_of, threshold_permille, .. } = *batch;
    let absurd = |reason: String| {
        Judgement::Absurd(format!("signals of partition {partition} by {}: {reason}", batch.aggregator))
    };
    let Some(followed) = followed else {
        return absurd("there is no such partition".to_owned());
    };
    if threshold_permille > THRESHOLD_PERMILLE_MAX {
        return absurd(format!("the threshold is {threshold_permille} thousandths of a quota"));
    }
    let latest = appended.plus_ms(CLOCK_ERROR_MAX_MS);
    if batch.as_of_appended > latest {
        return absurd("the counted record is newer than the signals".to_owned());
    }
    let horizon = latest.plus_ms(AHEAD_MS_MAX);
    let is_ahead = |ring: &Ring| ring.window().start_of(ring.newest()) > horizon;
    if batch.signals.iter().any(|signal| is_ahead(&signal.admitted)) {
        return absurd("a counted sub-window lies in the future".to_owned());
    }
    let is_same_log = followed.log == Some(log);
    let is_far_ahead = as_of > followed.as_of.saturating_add(ADVANCE_RECORDS_MAX);
    let is_left_behind = as_of < followed.as_of && appended.ms_since(followed.appended) >= BEHIND_MS_MAX;
    match end {
        None if !is_same_log || is_far_ahead || is_left_behind => Judgement::NeedsLogEnd,
        Some(end) if log != end.log => absurd("they count another log than `calls`".to_owned()),
        Some(end) if as_of >= end.next => {
            absurd(format!("they count up to offset {as_of}, and `calls` ends at {}", end.next))
        }
        Some(end) if is_same_log && followed.as_of >= end.next => Judgement::CredibleAgain,
        _ => Judgement::Credible,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_core::counter::CounterId;
    use tollgate_core::messages::signals::Signal;
    use tollgate_core::window::Window;

    use super::*;

    const APPENDED: Timestamp = Timestamp::from_ms(1_700_000_000_000);

    fn batch() -> SignalBatch {
        let window = Window::new(60_000, 6).expect("a window");
        let mut admitted = Ring::new(window);
        admitted.add(window.sub_window(APPENDED), 3);
        let signal = Signal {
            counter: CounterId::from_u128(1),
            rule: "r".into(),
            label: "k".into(),
            generation: 1,
            quota: 10,
            admitted,
            by_agent: Vec::new(),
            by_others: 0,
            denied: 0,
            rate_milli: 0,
            budget: None,
            newest_at: APPENDED,
            charged_at: APPENDED,
        };
        SignalBatch {
            aggregator: "g".into(),
            partition: 0,
            log: 1,
            as_of: 1_010,
            as_of_appended: APPENDED,
            threshold_permille: 500,
            agents: Vec::new(),
            signals: vec![signal],
        }
    }

    #[test]
    fn a_record_is_credible_unless_it_reports_what_cannot_be() {
        let end = Some(LogEnd { log: 1, next: 5_000_000 });
        let followed = |log, as_of, ago_ms| Some(Followed { log, as_of, appended: APPENDED.minus_ms(ago_ms) });
        let known = followed(Some(1), 1_000, 200);
        let beyond_end = followed(Some(1), 5_000_001, 1_000);
        let mut ahead = batch();
        ahead.signals[0].admitted.add(1 << 50, 1);
        let far = SignalBatch { as_of: 4_999_999, ..batch() };
        let beyond = SignalBatch { as_of: 5_000_000, ..batch() };
        let cases = [
            ("the next one", known, batch(), None, "credible"),
            ("an outdated one", followed(Some(1), 9_999, 999), batch(), None, "credible"),
            ("none but outdated ones for a second", followed(Some(1), 9_999, 1_000), batch(), None, "ask"),
            ("the same, verified", followed(Some(1), 9_999, 1_000), batch(), end, "credible"),
            ("a real one after one beyond the end", beyond_end, batch(), None, "ask"),
            ("the same, verified", beyond_end, batch(), end, "again"),
            ("the first one", followed(None, 0, 200), batch(), None, "ask"),
            ("the first one, verified", followed(None, 0, 200), batch(), end, "credible"),
            ("far ahead", known, far.clone(), None, "ask"),
            ("far ahead, verified", known, far, end, "credible"),
            ("beyond the end", known, beyond, end, "`calls` ends at 5000000"),
            ("offset 2^63", known, SignalBatch { as_of: 1 << 63, ..batch() }, end, "offset 9223372036854775808"),
            ("another log", known, SignalBatch { log: 2, ..batch() }, None, "ask"),
            ("another log, verified", known, SignalBatch { log: 2, ..batch() }, end, "another log"),
            ("no such partition", None, batch(), None, "no such partition"),
            ("threshold 1001", known, SignalBatch { threshold_permille: 1_001, ..batch() }, None, "1001 thousandths"),
            ("threshold 1000", known, SignalBatch { threshold_permille: 1_000, ..batch() }, None, "credible"),
            (
                "a record of the future",
                known,
                SignalBatch { as_of_appended: APPENDED.plus_ms(2_000), ..batch() },
                None,
                "newer than the signals",
            ),
            ("a sub-window of the future", known, ahead, None, "lies in the future"),
        ];
        for (name, known, batch, end, expected) in cases {
            let text = match judge(known, APPENDED, &batch, end) {
                Judgement::Credible => "credible".to_owned(),
                Judgement::CredibleAgain => "again".to_owned(),
                Judgement::NeedsLogEnd => "ask".to_owned(),
                Judgement::Absurd(reason) => reason,
            };
            assert!(text.contains(expected), "{name}: {text}");
        }
    }
}
