//! The fleet of one agent, `a`, over heartbeats that arrive or do not.

use tollgate_core::messages::presence::INTERVAL_MS;

use super::*;

pub(super) const START: Timestamp = Timestamp::from_ms(1_000_000);

struct Fixture {
    fleet: Fleet,
    ms: u64,
    notices: Vec<Notice>,
}

/// Sources that deliver in a span of time.
#[derive(Clone, Copy, Default)]
struct Delivery<'a> {
    /// Ids whose heartbeats the bus delivers.
    bus: &'a [&'a str],
    /// Ids in the presence set, if the store answers, and its age in ms.
    store: Option<(&'a [&'a str], u64)>,
}

impl Fixture {
    fn new(expected: u32, saved: Option<&[&str]>) -> Self {
        let saved = saved.map(|saved| saved.iter().map(|id| (*id).into()).collect());
        let fleet = Fleet::new("a".into(), START, NonZeroU32::new(expected), saved);
        Self { fleet, ms: 0, notices: Vec::new() }
    }

    /// Lets so many seconds pass, with a heartbeat of each in each of them.
    fn pass(&mut self, seconds: u64, delivery: Delivery<'_>) {
        for _ in 0..seconds {
            let now = START.plus_ms(self.ms);
            delivery.bus.iter().for_each(|id| self.fleet.presence(now, &heartbeat(id)));
            if let Some((ids, age_ms)) = delivery.store {
                let agents = ids.iter().map(|id| ((*id).into(), now)).collect();
                let set = PresenceSet { age_ms: age_ms + self.ms, agents, ..PresenceSet::default() };
                self.fleet.announced(now, Some(&set));
            }
            for _ in 0..10 {
                self.notices.extend(self.fleet.tick(START.plus_ms(self.ms)));
                self.ms += INTERVAL_MS / 10;
            }
        }
    }

    fn part(&self) -> FleetPart {
        self.fleet.part()
    }
}

pub(super) fn heartbeat(id: &str) -> Presence {
    Presence {
        id: id.into(),
        epoch: START.as_ms(),
        region: "r".into(),
        role: Role::Agent,
        generation: 1,
        clock: START,
        open_breakers: Vec::new(),
        dropped_rows: 0,
        leaving: false,
        http: "".into(),
        partitions: Vec::new(),
        coordinates: false,
        emergency: None,
        resets: Vec::new(),
        rules_refusal: "".into(),
        rules_published: false,
    }
}

const NOTHING_ARRIVES: Delivery<'_> = Delivery { bus: &[], store: None };

fn on_bus<'a>(bus: &'a [&'a str]) -> Delivery<'a> {
    Delivery { bus, store: None }
}

fn in_store<'a>(ids: &'a [&'a str], age_ms: u64) -> Delivery<'a> {
    Delivery { bus: &[], store: Some((ids, age_ms)) }
}

const fn one_of(agents: u32) -> FleetPart {
    FleetPart::OneOf(NonZeroU32::new(agents).unwrap())
}

const fn expected(agents: u32) -> FleetPart {
    FleetPart::Expected(NonZeroU32::new(agents).unwrap())
}

/// E7: an agent takes its part two heartbeats after its own came back, and removes another one that falls silent.
#[test]
fn the_fleet_follows_the_members_that_come_and_go() {
    let mut fixture = Fixture::new(7, None);
    assert_eq!((fixture.part(), fixture.fleet.size().get()), (expected(7), 7));
    fixture.pass(2, on_bus(&["a", "b"]));
    assert_eq!(
        (fixture.part(), fixture.fleet.is_known()),
        (FleetPart::Nothing, false),
        "the others may not know it yet"
    );
    fixture.pass(1, on_bus(&["a", "b"]));
    assert_eq!((fixture.part(), fixture.fleet.is_known()), (one_of(2), true));
    assert_eq!(fixture.fleet.ids().iter().map(|id| &**id).collect::<Vec<_>>(), ["a", "b"]);
    fixture.pass(12, on_bus(&["a"]));
    assert_eq!(fixture.part(), one_of(2));
    fixture.pass(2, on_bus(&["a"]));
    assert_eq!((fixture.part(), fixture.notices.len()), (one_of(1), 0));
}

#[test]
fn an_agent_that_leaves_is_removed_at_once_and_one_that_has_started_again_stays() {
    let mut fixture = Fixture::new(7, None);
    fixture.pass(3, on_bus(&["a", "b", "c"]));
    let leaving = |id, epoch| Presence { leaving: true, epoch, ..heartbeat(id) };
    fixture.fleet.presence(START.plus_ms(fixture.ms), &leaving("b", START.as_ms()));
    fixture.fleet.presence(START.plus_ms(fixture.ms), &leaving("c", START.as_ms() - 9));
    fixture.pass(1, on_bus(&["a"]));
    assert_eq!(fixture.part(), one_of(2));
}

/// I10: without any heartbeat the last number stands, and the log says so once.
#[test]
fn the_membership_is_frozen_while_no_own_heartbeat_comes_back() {
    let mut fixture = Fixture::new(10, None);
    fixture.pass(20, Delivery { bus: &["a", "b", "c"], store: Some((&["a", "b", "c"], 60_000)) });
    fixture.pass(8, on_bus(&["a", "b", "c"]));
    assert!(!fixture.fleet.is_frozen());
    fixture.pass(600, NOTHING_ARRIVES);
    assert_eq!((fixture.part(), fixture.fleet.is_frozen()), (one_of(3), true));
    let agents = NonZeroU32::new(3).unwrap();
    assert_eq!(fixture.notices, [Notice::FleetFrozen { agents }]);
    fixture.pass(13, on_bus(&["a", "b"]));
    assert_eq!((fixture.part(), fixture.fleet.is_frozen()), (one_of(3), false), "c had no time to come back");
    fixture.pass(2, on_bus(&["a", "b"]));
    assert_eq!(fixture.part(), one_of(2));
    assert_eq!(fixture.notices[1..], [Notice::FleetUnfrozen { agents }]);
}

/// I10: a store that comes back empty proves nothing until it has been there for the removal time.
#[test]
fn an_empty_presence_set_removes_nobody() {
    let mut fixture = Fixture::new(10, None);
    fixture.pass(20, in_store(&["a", "b", "c"], 60_000));
    fixture.pass(1, in_store(&["a"], 0));
    fixture.pass(60, NOTHING_ARRIVES);
    assert_eq!(fixture.part(), one_of(3));
    fixture.pass(13, in_store(&["a"], 0));
    assert_eq!(fixture.part(), one_of(3));
    fixture.pass(2, in_store(&["a"], 13_000));
    assert_eq!(fixture.part(), one_of(1));
}

#[test]
fn a_new_agent_believes_a_presence_set_that_is_old_enough_or_larger_than_expected() {
    let cases: [(&[&str], u64, FleetPart); 4] = [
        (&["a"], 0, expected(2)),
        (&["a"], 13_000, one_of(1)),
        (&["a", "b", "c"], 0, expected(3)),
        (&["a", "b", "c"], 13_000, one_of(3)),
    ];
    for (ids, age_ms, part) in cases {
        let mut fixture = Fixture::new(2, None);
        fixture.pass(3, in_store(ids, age_ms));
        assert_eq!(fixture.part(), part, "{ids:?} {age_ms}");
    }
}

/// E7: a new agent has at once what no other agent can have, and nothing until two heartbeats where others may divide
/// the quota.
#[test]
fn a_new_agent_that_meets_nobody_has_a_part_at_once() {
    // Expected number, saved members, sources; part in the first second, and after three.
    type Case<'a> = (u32, Option<&'a [&'a str]>, Delivery<'a>, FleetPart, FleetPart);
    let alone: &[&str] = &["a"];
    let both: &[&str] = &["a", "b"];
    let cases: [Case<'_>; 10] = [
        (7, None, in_store(alone, 13_000), one_of(1), one_of(1)),
        (7, None, in_store(alone, 0), expected(7), expected(7)),
        (1, None, in_store(alone, 0), expected(1), expected(1)),
        (7, Some(&[]), in_store(alone, 0), one_of(1), one_of(1)),
        (7, Some(&["b"]), in_store(alone, 13_000), FleetPart::Nothing, one_of(2)),
        (1, None, in_store(both, 13_000), FleetPart::Nothing, one_of(2)),
        (1, None, on_bus(alone), expected(1), one_of(1)),
        (7, Some(&[]), on_bus(alone), FleetPart::Nothing, one_of(1)),
        (7, None, on_bus(alone), FleetPart::Nothing, one_of(1)),
        (1, None, on_bus(both), FleetPart::Nothing, one_of(2)),
    ];
    for (number, (agents, saved, delivery, first, then)) in cases.into_iter().enumerate() {
        let mut fixture = Fixture::new(agents, saved);
        for second in 0..3 {
            let part = if second < 2 { first } else { then };
            fixture.pass(1, delivery);
            assert_eq!(fixture.part(), part, "case {number}, second {second}");
        }
    }
}

#[test]
fn a_number_of_agents_is_guessed_until_somebody_names_it() {
    let alone: &[&str] = &["a"];
    // Expected number, or 0 for the default; age of the presence set.
    for (expected, age_ms, is_guessed) in [(0, 0, true), (7, 0, false), (0, 13_000, false)] {
        let mut fixture = Fixture::new(expected, None);
        fixture.pass(1, in_store(alone, age_ms));
        assert_eq!(fixture.fleet.is_guessed(), is_guessed, "{expected} {age_ms}");
    }
}

/// never-over: an agent that was alone knows a new one before that one takes its part.
#[test]
fn an_agent_that_was_alone_shares_with_the_next_one_before_that_one_has_a_part() {
    let mut fixture = Fixture::new(7, None);
    fixture.pass(1, in_store(&["a"], 13_000));
    assert_eq!(fixture.part(), one_of(1));
    fixture.pass(1, in_store(&["a", "b"], 13_000));
    assert_eq!(fixture.part(), one_of(2));
}

/// I10: an agent that the others cannot hear has no part, before they divide its part among themselves.
#[test]
fn an_agent_that_hears_others_and_not_itself_gives_its_part_up() {
    let mut fixture = Fixture::new(10, None);
    fixture.pass(3, on_bus(&["a", "b"]));
    fixture.pass(12, on_bus(&["b"]));
    assert_eq!(fixture.part(), FleetPart::Nothing);
    fixture.pass(60, NOTHING_ARRIVES);
    assert_eq!(fixture.part(), FleetPart::Nothing, "the others have its part");
    fixture.pass(2, on_bus(&["a", "b"]));
    assert_eq!(fixture.part(), FleetPart::Nothing);
    fixture.pass(1, on_bus(&["a", "b"]));
    assert_eq!(fixture.part(), one_of(2));
    let of_standing = |notice: &&Notice| matches!(notice, Notice::HeartbeatsLost | Notice::HeartbeatsBack);
    let seen: Vec<_> = fixture.notices.iter().filter(of_standing).collect();
    assert_eq!(seen, [&Notice::HeartbeatsLost, &Notice::HeartbeatsBack]);
}

#[test]
fn a_bus_that_delivers_others_first_after_an_outage_costs_no_part() {
    let mut fixture = Fixture::new(10, None);
    fixture.pass(3, on_bus(&["a", "b"]));
    fixture.pass(60, NOTHING_ARRIVES);
    fixture.pass(5, on_bus(&["b"]));
    assert_eq!(fixture.part(), one_of(2));
}

/// I10: the saved members stand until they are heard or disproved; without them, the expected number does.
#[test]
fn an_agent_that_hears_nobody_goes_by_the_saved_members_or_by_the_expected_number() {
    for (saved, part) in [(Some(["a", "b", "c"].as_slice()), one_of(3)), (Some(&["b"]), one_of(2)), (None, expected(5))]
    {
        let mut fixture = Fixture::new(5, saved);
        fixture.pass(60, NOTHING_ARRIVES);
        assert_eq!((fixture.part(), fixture.fleet.is_frozen()), (part, saved.is_some()), "{saved:?}");
    }
    let mut fixture = Fixture::new(5, Some(&["b", "c"]));
    fixture.pass(3, on_bus(&["a", "b"]));
    assert_eq!(fixture.part(), one_of(3));
    fixture.pass(12, on_bus(&["a", "b"]));
    assert_eq!(fixture.part(), one_of(2));
}

/// capped: heartbeats of more agents than the cap change nothing.
#[test]
fn the_number_of_members_is_capped() {
    let fleet = Fleet::new("a".into(), START, None, None);
    for number in 0..2 * members::MEMBERS_LEN_MAX {
        fleet.presence(START, &heartbeat(&format!("b-{number}")));
    }
    fleet.tick(START);
    assert_eq!(fleet.ids().len(), members::MEMBERS_LEN_MAX + 1);
}

/// R8: a unit of a counter is placed on one agent, and all members agree on which.
#[test]
fn units_are_placed_on_different_members_and_none_on_a_stranger() {
    let ids = ["a", "b", "c", "d"];
    let fleets = ids.map(|id| {
        let others = ids.iter().map(|id| (*id).into()).collect();
        let fleet = Fleet::new(id.into(), START, None, Some(others));
        assert_eq!(fleet.rank(CounterId::from_u128(0)), None, "the others may be there");
        fleet.tick(START.plus_ms(SILENT_MS + 1));
        fleet
    });
    for counter in (0..20).map(CounterId::from_u128) {
        let mut ranks = fleets.each_ref().map(|fleet| fleet.rank(counter).unwrap());
        ranks.sort_unstable();
        assert_eq!(ranks, [0, 1, 2, 3]);
    }
    let first = |counter| fleets.iter().position(|fleet| fleet.rank(CounterId::from_u128(counter)) == Some(0));
    assert!((0..20).any(|counter| first(counter) != first(0)), "not always the same member");
    let stranger = Fleet::new("e".into(), START, NonZeroU32::new(4), None);
    assert_eq!(stranger.rank(CounterId::from_u128(1)), None);
}
