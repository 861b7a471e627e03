//! What agents that share a store know of each other through it.

use tollgate_core::messages::rules::Published;

use super::*;

/// E7: an agent is counted from its first sign to its last.
#[test]
fn agents_see_how_many_they_are() {
    let prefix = own_prefix();
    let (one, other) = (shared(&prefix), shared(&prefix));
    assert_eq!(on(one.show("one", false)), Ok(Some(1)));
    assert_eq!(on(other.show("other", false)), Ok(Some(2)));
    assert_eq!(on(one.show("one", false)), Ok(Some(2)));
    assert_eq!(on(other.show("other", true)), Ok(Some(1)));
    // One that has said nothing for longer than that.
    assert_eq!(SHARED.command(&format!("ZADD {prefix}agents 1000 silent")), ":1");
    assert_eq!(on(one.show("one", false)), Ok(Some(1)));
    assert_ne!(SHARED.command(&format!("PTTL {prefix}agents")), ":-1");
}

/// F7, F8: rules travel through Redis too, and older ones never replace newer ones.
#[test]
fn rules_are_published_once_and_read_by_all() {
    let prefix = own_prefix();
    let (one, other) = (shared(&prefix), shared(&prefix));
    assert_eq!(on(other.rules()), Ok(None));
    assert_eq!(on(one.publish_rules(None, &published("a.yaml", "rules: a"))), Ok(1));
    assert_eq!(on(one.publish_rules(Some(7), &published("b.yaml", "rules: b"))), Ok(7));
    assert_eq!(on(one.publish_rules(Some(3), &published("old.yaml", "rules: old"))), Ok(7));
    assert_eq!(on(one.publish_rules(Some(7), &published("same.yaml", "rules: same"))), Ok(7));
    assert_eq!(on(other.rules()), Ok(Some((7, published("b.yaml", "rules: b")))));
    assert_eq!(on(other.publish_rules(None, &published("c.yaml", "rules: c"))), Ok(8));
    assert_eq!(SHARED.command(&format!("PTTL {prefix}rules")), ":-1", "rules do not expire");
}

fn published(name: &str, text: &str) -> Published {
    Published { name: name.to_owned(), text: text.to_owned() }
}
