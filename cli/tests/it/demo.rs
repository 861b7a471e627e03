//! `tollgate demo`, the first thing that anyone sees.

use crate::support::{finish, tollgate};

/// The whole demo, without a terminal: plain lines, the outage told, the summary, exit code 0.
#[test]
fn the_demo_tells_its_story_in_plain_lines() {
    let done = finish(&mut tollgate(&["demo"]));
    assert_eq!((done.exit, &*done.err), (0, ""), "{}", done.err);
    assert!(!done.out.contains('\x1b'), "no escape codes without a terminal");
    for expected in [
        "the store goes away",
        "the store is back, with its old counts",
        "calls/s",
        "top abuser",
        " store ",
        " signal ",
        "over-admitted",
        "under-admitted",
        "signal lag      p50",
    ] {
        assert!(done.out.contains(expected), "{expected}: {}", done.out);
    }
}
