//! Memberships that hear the same heartbeats.

use super::*;

const PARTITIONS: u32 = 16;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_ms(ms)
}

fn heartbeat(id: &str, leaving: bool) -> Presence {
    Presence {
        id: id.into(),
        epoch: 1,
        region: "r".into(),
        role: Role::Aggregator,
        generation: 0,
        clock: at(0),
        open_breakers: Vec::new(),
        dropped_rows: 0,
        leaving,
        http: format!("{id}:1").into(),
        partitions: vec![7],
        coordinates: false,
        emergency: None,
        resets: Vec::new(),
        rules_refusal: "".into(),
        rules_published: false,
    }
}

fn owned(membership: &Membership) -> Vec<Partition> {
    (0..PARTITIONS).filter(|partition| membership.owner(*partition) == PartitionOwner::Own).collect()
}

/// Heartbeats of these ids, every 200 ms of a span, applied to all memberships.
fn apply(memberships: &mut [Membership], ids: &[&str], from_ms: u64, to_ms: u64) {
    for ms in (from_ms..=to_ms).step_by(200) {
        for id in ids {
            for membership in memberships.iter_mut() {
                membership.apply(&heartbeat(id, false), at(ms)).expect("a credible record");
            }
        }
    }
}

fn pair() -> [Membership; 2] {
    ["a", "b"].map(|id| Membership::new((id.into(), 1)))
}

#[test]
fn each_partition_has_one_owner_once_all_have_listened() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 800);
    assert!(both.iter().all(|one| owned(one).is_empty()), "a new member listens first");
    apply(&mut both, &["a", "b"], 1_000, 1_000);
    let (a, b) = (owned(&both[0]), owned(&both[1]));
    assert!(!a.is_empty() && !b.is_empty() && a.iter().all(|partition| !b.contains(partition)));
    assert_eq!(a.len() + b.len(), PARTITIONS as usize);
}

/// E7: a dead member's partitions move on within about a second, and only those.
#[test]
fn a_peer_that_is_silent_during_own_heartbeats_is_removed() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    let before = owned(&both[0]);
    apply(&mut both[..1], &["a"], 1_200, 2_000);
    assert_eq!(owned(&both[0]), before, "not yet");
    apply(&mut both[..1], &["a"], 2_200, 2_200);
    assert_eq!(owned(&both[0]).len(), PARTITIONS as usize);
}

#[test]
fn a_silent_bus_removes_nobody() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    let before = owned(&both[0]);
    apply(&mut both, &["a", "b"], 60_000, 60_800);
    assert_eq!(owned(&both[0]), before);
    assert!(!both[0].is_known(), "a peer that came meanwhile may not know it");
    apply(&mut both, &["a", "b"], 61_000, 61_000);
    assert!(both[0].is_known());
}

#[test]
fn a_peer_counts_the_partitions_that_it_announces() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 800);
    assert_eq!(
        [6, 7].map(|partition| both[0].owner(partition)),
        [PartitionOwner::PeerRestoring, PartitionOwner::PeerCounting]
    );
}

#[test]
fn only_the_owner_itself_announces_that_it_counts() {
    let is_heaviest = |id: &String| {
        ["a", "b"].iter().all(|other| weight(&((*other).into(), 1), 7) < weight(&(id.as_str().into(), 1), 7))
    };
    let owner = (0..100).map(|number| format!("c{number}")).find(is_heaviest).unwrap();
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    for ms in [1_100, 2_100] {
        let restoring = Presence { partitions: Vec::new(), ..heartbeat(&owner, false) };
        both[0].apply(&restoring, at(ms)).expect("a credible record");
    }
    assert_eq!(both[0].owner(7), PartitionOwner::PeerRestoring, "b may have crashed since");
    both[0].apply(&heartbeat(&owner, false), at(2_200)).expect("a credible record");
    assert_eq!(both[0].owner(7), PartitionOwner::PeerCounting);
}

#[test]
fn a_peer_that_leaves_is_removed_at_once() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    both[0].apply(&heartbeat("b", true), at(1_100)).expect("a credible record");
    assert_eq!(owned(&both[0]).len(), PARTITIONS as usize);
}

#[test]
fn an_unknown_aggregator_that_claims_partitions_changes_nothing_unless_it_goes_on() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    let before = owned(&both[0]);
    for ms in (1_001..1_001 + CLAIMED_MS).step_by(199) {
        let claims = both[0].apply(&heartbeat("unknown", false), at(ms));
        assert!(claims.is_err_and(|reason| reason.contains("unknown")));
        apply(&mut both, &["a", "b"], ms + 1, ms + 1);
    }
    assert_eq!((owned(&both[0]), both[0].members()), (before, 2));
    both[0].apply(&heartbeat("unknown", false), at(1_001 + CLAIMED_MS)).expect("it goes on");
    assert_eq!(both[0].members(), 3);
}

/// hand-over: the honest heartbeats of a new aggregator are refused in a flood, and it claims its partitions before it is
/// heard. The others know it in the end, so that no partition keeps two owners.
#[test]
fn an_aggregator_that_starts_in_a_flood_is_known_in_the_end() {
    let mut all = ["a", "b", "new"].map(|id| Membership::new((id.into(), 1)));
    apply(&mut all[..2], &["a", "b"], 0, 1_000);
    for number in 0..=NEWCOMERS_LEN_MAX {
        let forged = Presence { partitions: Vec::new(), ..heartbeat(&format!("f{number}"), false) };
        for one in &mut all[..2] {
            let _ = one.apply(&forged, at(1_050));
        }
    }
    for ms in (1_100..6_000).step_by(200) {
        apply(&mut all, &["a", "b"], ms, ms);
        let partitions = if all[2].is_known() { vec![7] } else { Vec::new() };
        let honest = Presence { partitions, ..heartbeat("new", false) };
        for one in &mut all {
            let _ = one.apply(&honest, at(ms));
        }
    }
    assert_eq!(all.each_ref().map(Membership::members), [3, 3, 3]);
    assert_eq!(all.iter().map(|one| owned(one).len()).sum::<usize>(), PARTITIONS as usize);
}

#[test]
fn a_thousand_new_aggregators_change_nothing() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    let before = owned(&both[0]);
    let mut refused = 0;
    for number in 0..1_000 {
        let forged = Presence { partitions: Vec::new(), ..heartbeat(&format!("f{number}"), false) };
        refused += usize::from(both[0].apply(&forged, at(1_100 + number / 2)).is_err());
    }
    assert_eq!((owned(&both[0]), both[0].members()), (before, 2));
    assert!(refused > 500, "{refused}");
}

/// A suspended aggregator goes on to announce the partitions that it counted before.
#[test]
fn a_peer_that_was_silent_is_a_peer_again_at_once() {
    let mut both = pair();
    apply(&mut both, &["a", "b"], 0, 1_000);
    apply(&mut both[..1], &["a"], 1_200, 3_000);
    assert_eq!(both[0].members(), 1);
    apply(&mut both[..1], &["b"], 3_100, 3_100);
    assert_eq!(both[0].members(), 2);
}

#[test]
fn the_peers_that_may_coordinate_say_so() {
    let mut membership = Membership::new(("a".into(), 1));
    apply(std::slice::from_mut(&mut membership), &["a", "b"], 0, 1_000);
    assert_eq!(membership.coordinating_peers().count(), 0);
    let coordinating = Presence { coordinates: true, ..heartbeat("b", false) };
    membership.apply(&coordinating, at(1_200)).expect("a credible record");
    assert_eq!(membership.coordinating_peers().map(|name| &**name).collect::<Vec<_>>(), ["b"]);
    membership.apply(&heartbeat("b", true), at(1_400)).expect("a credible record");
    assert_eq!(membership.coordinating_peers().count(), 0, "it has left");
}
