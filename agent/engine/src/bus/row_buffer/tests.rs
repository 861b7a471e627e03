//! Rows of several threads and rounds.

use std::sync::Arc;

use tollgate_core::call::Call;
use tollgate_core::clock::Timestamp;
use tollgate_core::decision::Source;
use tollgate_core::messages::calls::Outcome;
use tollgate_core::rules::RuleSet;

use super::row_stripes::ROWS_LEN_MAX;
use super::*;
use crate::bus::known_rows::{KnownRow, SubjectNumber};
use crate::report::{EngineMetrics, use_stripe};
use crate::rules::ActiveRules;
use crate::tests::WakeUps;

const NOW: Timestamp = Timestamp::from_ms(1_000_000);

fn add(buffers: &RowBuffers, stripe: usize, call: u64, text: &str) -> Option<u64> {
    use_stripe(stripe);
    buffers.add(NOW, |buffer| BufferedRow {
        call,
        at: NOW,
        cost: 1,
        outcome: Outcome::Admitted,
        shadow_denied: false,
        source: Source::Local,
        counter: None,
        home: None,
        rules: 0,
        descriptors: buffer.add_descriptors(call, &Call::new().with("name", text)),
        trace: None,
        order: RowOrder::default(),
    })
}

/// Adds a row that makes its subject known.
fn add_subject(buffers: &RowBuffers) -> SubjectNumber {
    let active = Arc::new(ActiveRules::new(RuleSet::none_yet(), Timestamp::default(), &EngineMetrics::default()));
    let mut place = None;
    buffers.add_subject(NOW, &mut place, |buffer| BufferedRow {
        call: 1,
        at: NOW,
        cost: 1,
        outcome: Outcome::Admitted,
        shadow_denied: false,
        source: Source::Local,
        counter: None,
        home: None,
        rules: buffer.index_of_rules(&active),
        descriptors: buffer.add_descriptors(1, &Call::new().with("name", "a")),
        trace: None,
        order: RowOrder::default(),
    });
    place.expect("the stripe is its own")
}

fn add_known(buffers: &RowBuffers, place: SubjectNumber) -> bool {
    buffers.add_known(NOW, place, KnownRow { call: 2, at: NOW, admitted: true, source: Source::Local, remaining: 3 })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    BeginRound,
    Take(usize),
}

/// Runs the steps of the second round, with a call on a stripe before the step of this number. Returns true if the row
/// is taken whenever it names the second round or an earlier one.
fn is_contained(steps: &[Step], stripe: usize, before: usize) -> bool {
    let (buffers, mut taken, mut says) = (RowBuffers::default(), 0, None);
    assert_eq!(buffers.begin_round(), 1);
    for position in 0..=steps.len() {
        if position == before {
            says = add(&buffers, stripe, 1, "a");
        }
        match steps.get(position) {
            Some(Step::BeginRound) => assert_eq!(buffers.begin_round(), 2),
            Some(Step::Take(stripe)) => {
                let mut buffer = RowBuffer::default();
                buffers.take(*stripe, &mut buffer);
                taken += buffer.rows.len();
            }
            None => {}
        }
    }
    assert!(says.is_some_and(|round| (2..=3).contains(&round)));
    says == Some(3) || taken == 1
}

/// E8: a view takes the rows that name a round for published once the round is complete. A publishing thread that
/// raised the round after it has taken the rows would miss some.
#[test]
fn a_round_contains_all_rows_that_say_it_wherever_a_call_comes_between() {
    use Step::{BeginRound, Take};
    let holds = |steps: &[Step; 3]| (0..2).all(|stripe| (0..=3).all(|before| is_contained(steps, stripe, before)));
    assert!(holds(&[BeginRound, Take(0), Take(1)]));
    assert!(!holds(&[Take(0), Take(1), BeginRound]) && !holds(&[Take(0), BeginRound, Take(1)]));
}

#[test]
fn a_full_buffer_drops_rows_and_another_stripe_has_room() {
    let buffers = RowBuffers::default();
    let rows = ROWS_LEN_MAX as u64 + 10;
    let kept = (0..rows).filter(|call| add(&buffers, 3, *call, "a").is_some()).count();
    assert_eq!((kept, buffers.dropped(), buffers.is_any_full()), (ROWS_LEN_MAX, 10, true));
    assert!(add(&buffers, 4, 0, "a").is_some());
    let mut buffer = RowBuffer::default();
    buffers.take(3, &mut buffer);
    assert_eq!((buffer.rows.len(), buffers.is_any_full()), (ROWS_LEN_MAX, false));
}

/// A thread that knows the call of a row uses no lock, and still learns that all is closed.
#[test]
fn a_known_call_adds_no_row_once_the_buffers_are_closed() {
    use_stripe(5);
    let buffers = RowBuffers::default();
    let place = add_subject(&buffers);
    let add_known = || add_known(&buffers, place);
    assert!(add_known());
    buffers.close();
    assert!(!add_known());
    assert_eq!((add(&buffers, 5, 3, "a"), buffers.dropped(), buffers.waiting_rows()), (None, 1, 2));
}

/// The calls that a thread knows depend on a random hash. They must not decide when the publishing thread runs.
#[test]
fn only_the_first_row_of_a_stripe_wakes_the_shell_whether_its_call_is_known_or_not() {
    use_stripe(5);
    let (buffers, woken) = (RowBuffers::default(), Arc::new(WakeUps::default()));
    let place = add_subject(&buffers);
    let wakes = |add: &dyn Fn()| {
        let before = woken.count();
        buffers.wake_at_first(&woken.clone().into());
        add();
        woken.count() - before
    };
    let whole = || assert!(add(&buffers, 5, 3, "a").is_some());
    let known = || assert!(add_known(&buffers, place));
    let take = || {
        let mut collector = RowCollector::default();
        assert!(collector.collect(&buffers, 5, |_, _, _, _| {}) > 0);
    };
    assert_eq!((wakes(&known), wakes(&whole)), (0, 0), "the subject waits");
    take();
    assert_eq!((wakes(&known), wakes(&known), wakes(&whole)), (1, 0, 0));
}

#[test]
fn the_rows_of_a_call_share_its_descriptors() {
    let buffers = RowBuffers::default();
    for (call, text) in [(1, "a"), (1, "a"), (2, "b")] {
        add(&buffers, 0, call, text);
    }
    let mut buffer = RowBuffer::default();
    buffers.take(0, &mut buffer);
    let shown: Vec<_> = buffer.rows.iter().flat_map(|row| buffer.descriptors(row)).collect();
    assert_eq!(shown, [("name", "a"), ("name", "a"), ("name", "b")]);
}
