//! What agents that share a store know of each other through it.

use super::*;
use crate::store::RulesRecord;

/// E7: an agent is counted from its first sign to its last.
#[test]
fn agents_see_how_many_they_are() {
    let prefix = own_prefix();
    let (one, other) = (shared(&prefix), shared(&prefix));
    assert_eq!(on(one.show("one", false)), Ok(Some(1)));
    assert_eq!(on(other.show("other", false)), Ok(Some(2)));
    assert_eq!(on(one.show("one", false)), Ok(Some(2)));
    assert_eq!(on(other.show("other", true)), Ok(Some(1)));
    // One that has said nothing for more than 15 s.
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
    assert_eq!(on(one.publish_rules(None, "a.yaml", "rules: a")), Ok(1));
    assert_eq!(on(one.publish_rules(Some(7), "b.yaml", "rules: b")), Ok(7));
    assert_eq!(on(one.publish_rules(Some(3), "old.yaml", "rules: old")), Ok(7));
    assert_eq!(on(one.publish_rules(Some(7), "same.yaml", "rules: same")), Ok(7));
    let b = RulesRecord { generation: 7, name: "b.yaml".to_owned(), text: "rules: b".to_owned() };
    assert_eq!(on(other.rules()), Ok(Some(b)));
    assert_eq!(on(other.publish_rules(None, "c.yaml", "rules: c")), Ok(8));
    assert_eq!(SHARED.command(&format!("PTTL {prefix}rules")), ":-1", "rules do not expire");
}
