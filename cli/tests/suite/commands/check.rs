//! `tollgate check`: exit codes and output.

use std::net::TcpListener;

use crate::support::{Finished, Up, finish, tollgate};

fn check(agent: &str, args: &[&str]) -> Finished {
    finish(tollgate(&["check", "--agent", agent]).args(args))
}

#[test]
fn an_allowed_call_is_0_and_a_denied_one_3() {
    let up = Up::start(&["--limit", "2/min per api_key"]);
    let allowed = check(&up.url(), &["api_key=k1", "endpoint=/search?a=b"]);
    assert_eq!((allowed.exit, &*allowed.err), (0, ""));
    let lines: Vec<&str> = allowed.out.lines().collect();
    assert_eq!(lines[..3], ["allowed", "rule         per-api_key", "remaining    1 of 2"]);
    assert!(allowed.out.contains("source       store"), "{}", allowed.out);

    let denied = check(&up.url(), &["api_key=k1", "--cost", "2"]);
    assert_eq!((denied.exit, &*denied.err), (3, ""));
    assert!(denied.out.starts_with("denied\n") && denied.out.contains("\nretry after  "), "{}", denied.out);

    let json = check(&up.url(), &["api_key=k1", "--format", "json"]);
    let body: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((json.exit, &body["allowed"], &body["remaining"]), (0, &true.into(), &0.into()));

    let never = check(&up.url(), &["api_key=k2", "--cost", "3"]);
    let lines: Vec<&str> = never.out.lines().collect();
    let reason =
        "reason       rule per-api_key allows 2 in 60 s, and this call costs 3: it can never pass; make it smaller";
    assert_eq!((never.exit, lines[..3].to_vec()), (3, vec!["denied", "rule         per-api_key", reason]));
    assert!(!never.out.contains("retry after"), "{}", never.out);

    let free = check(&up.url(), &["tenant=t"]);
    assert!(free.exit == 0 && free.out.contains("none limits this call"), "{}", free.out);
}

#[test]
fn when_nobody_answers_it_is_4_with_a_remedy() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let late = check(&address, &["api_key=k1", "--timeout", "50ms"]);
    assert_eq!((late.exit, &*late.out), (4, ""));
    assert!(late.err.contains("no answer within 50 ms"), "{}", late.err);
    drop(silent);
    let refused = check(&address, &["api_key=k1"]);
    assert_eq!((refused.exit, &*refused.out), (4, ""));
    assert!(refused.err.contains("start an agent with `tollgate up`"), "{}", refused.err);
}

#[test]
fn an_agent_that_refuses_the_question_is_1_with_its_reason() {
    let up = Up::start(&[]);
    let long = format!("{}=v", "n".repeat(65));
    let refused = check(&up.url(), &[&long]);
    assert_eq!((refused.exit, &*refused.out), (1, ""));
    assert!(refused.err.contains("answers 400 Bad Request: the body is not a valid call"), "{}", refused.err);
}

#[test]
fn a_question_that_makes_no_sense_is_2() {
    for args in [
        &[][..],
        &["api_key"],
        &["=k1"],
        &["a=1", "a=2"],
        &["a=1", "--timeout", "soon"],
        &["a=1", "--agent", "https://agent"],
    ] {
        let refused = finish(tollgate(&["check"]).args(args));
        assert_eq!((refused.exit, &*refused.out), (2, ""), "{args:?}");
        assert!(refused.err.starts_with("error: "), "{}", refused.err);
    }
}
