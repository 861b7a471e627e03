//! End of `tollgate up`.

use crate::support::{Client, Up, wait_for};

const CALL: &str = r#"{"descriptors": {"api_key": "k1"}}"#;

/// Sends the head of a request, so the server waits for the body.
fn begin(up: &Up) -> Client {
    let mut client = up.client();
    client.write(&format!(
        "POST /check HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        CALL.len()
    ));
    assert_eq!(client.receive().status, 100);
    client
}

#[test]
fn a_signal_lets_open_requests_end_and_then_ends_well() {
    for signal in ["TERM", "INT"] {
        let up = Up::start(&["--limit", "1/min per api_key"]);
        let mut idle = up.client();
        assert_eq!(idle.check("k1").status, 200);
        let mut open = begin(&up);
        up.signal(signal);
        up.wait_until_closed();
        open.write(CALL);
        assert_eq!(open.receive().status, 429);
        let (status, err) = up.end();
        assert_eq!(status.code(), Some(0), "{err}");
        assert!(err.contains("stopped; calls allowed: 1, denied: 1"), "{err}");
    }
}

/// A gateway that looks at `/readyz` leaves before the end, and no request of others fails.
#[test]
fn an_agent_that_drains_is_not_ready_and_still_decides() {
    let up = Up::start(&["--limit", "10/min per api_key", "--drain", "1h"]);
    let mut kept = up.client();
    assert_eq!(kept.get("/readyz", &[]).status, 200);
    up.signal("TERM");
    let unready = wait_for("the drain", || Some(up.client().get("/readyz", &[])).filter(|answer| answer.status == 503));
    assert!(unready.text().contains("the agent is about to stop"), "{}", unready.text());
    let last = kept.check("k1");
    assert_eq!((last.status, last.header("connection")), (200, "close"));
    assert!(kept.try_check("k1").is_none(), "the connection ended with the answer");
    assert_eq!(up.client().check("k1").status, 200, "connections are still accepted");
    up.signal("TERM");
    assert_eq!(up.end().0.code(), Some(1));
}

#[test]
fn a_drain_ends_by_itself() {
    let up = Up::start(&["--drain", "1ms"]);
    up.signal("TERM");
    let (status, err) = up.end();
    assert_eq!(status.code(), Some(0), "{err}");
    assert!(err.contains("draining for 1ms: not ready"), "{err}");
}

#[test]
fn a_second_signal_ends_at_once() {
    let up = Up::start(&[]);
    let _open = begin(&up);
    up.signal("INT");
    up.wait_until_closed();
    up.signal("INT");
    assert_eq!(up.end().0.code(), Some(1));
}
