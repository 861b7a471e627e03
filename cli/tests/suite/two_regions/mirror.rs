//! A region that reads the ledger from a copy in its own Kafka, which Apache Kafka's `MirrorMaker` makes.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate_bus::kafka::{KafkaBus, KafkaSettings, TopicSet};
use tollgate_bus::{Bus, LogReader, ReadFrom, Topic};
use tollgate_core::clock::Stopwatch;

use super::calls::{Phase, quota, run_until, width_ms};
use super::regions::{KEY, RegionServers, TwoRegions};
use crate::support::wait_for;

/// Document whose properties `MirrorMaker` gets, with the names of its brokers, and the name of the copy: the alias of the home
/// cluster and the topic.
const DOCUMENT: &str = include_str!("../../../../docs/fleet.md");
const BROKERS: [&str; 2] = ["kafka.eu:9092", "kafka.us:9092"];
const COPY: &str = "eu.ledger";
/// Part of the quota that each region holds always, in percent.
const FLOOR_PERCENT: u64 = 10;
/// Time in which a budget moves, beside the window of a busy donor.
const TRANSFER_MS: u64 = 3_000;
const PER_SECOND: u64 = 80;
/// End of the load if `MirrorMaker` does not come back.
const END_MS_MAX: u64 = 180_000;
const TIMEOUT: Duration = Duration::from_secs(30);

/// J1, J3, J4: the far region reads a copy of the ledger. It gets the units that the home region gives back, and gets its share
/// again after `MirrorMaker` was killed and repeats records. Both regions together stay within the quota all the time.
#[test]
fn a_region_that_reads_a_mirror_has_its_share_also_after_repeated_records() {
    let (_, properties) = DOCUMENT.split_once("```properties\n").expect("an example");
    let (properties, _) = properties.split_once("```").expect("its end");
    let mirrored = (properties, BROKERS, COPY);
    let (regions, mut mirror) = TwoRegions::start_mirrored("mirror", FLOOR_PERCENT, mirrored);
    let (shifted_at, killed_at) = (width_ms(), 3 * width_ms() + TRANSFER_MS);
    let phase = |region: &RegionServers, time_ms| Phase { agents: region.agents(), time_ms, per_second: PER_SECOND };
    let phases = [
        phase(&regions.home, 0..shifted_at),
        phase(&regions.far, shifted_at..u64::MAX),
        phase(&regions.home, killed_at..u64::MAX),
    ];
    let (started, end) = (Stopwatch::start(), AtomicU64::new(END_MS_MAX));
    let now_ms = || u64::try_from(started.elapsed().as_millis()).expect("a short test");
    let log = thread::scope(|scope| {
        let load = scope.spawn(|| run_until(KEY, &phases, started, &end));
        thread::sleep(Duration::from_millis(killed_at).saturating_sub(started.elapsed()));
        mirror.kill();
        let read_at_kill = read(&regions.far);
        mirror.restart();
        wait_for("further records of the mirror", || (read(&regions.far) > read_at_kill).then_some(()));
        eprintln!("MirrorMaker copies again after {} ms", now_ms() - killed_at);
        end.store(now_ms() + 2 * width_ms() + TRANSFER_MS, Ordering::Relaxed);
        load.join().expect("no panic")
    });
    let fullest = log.fullest_window();
    assert!(fullest <= quota(), "{fullest} of {} in a window", quota());
    let end = end.into_inner();
    let admitted = |end_ms: u64| {
        let in_window = |region: &RegionServers| log.to(&region.agents()).admitted(end_ms - width_ms()..end_ms);
        (in_window(&regions.home), in_window(&regions.far))
    };
    let (before, shifted, shared) = (admitted(shifted_at), admitted(killed_at), admitted(end));
    eprintln!("admitted in a window by home and far: {before:?} before, {shifted:?} shifted, {shared:?} shared");
    let rest = quota() - quota() * FLOOR_PERCENT / 100;
    assert!(before.0 * 10 >= rest * 8, "before the shift, the home region has the units: {before:?}");
    assert!(shifted.1 * 10 >= rest * 9, "the far region has the units that were given back: {shifted:?}");
    assert!(shared.0.min(shared.1) * 10 >= quota() * 4, "both share after the restart: {shared:?}");
    assert_order_is_kept(&regions);
    // The far region reads its own records from the mirror, too.
    wait_for("the usage of both regions", || {
        let budgets = regions.far.budgets()?;
        let shown = budgets["usage"]["regions"].as_array()?;
        (shown.len() == 2 && shown.iter().all(|region| region["known"] == true)).then_some(())
    });
}

/// Returns the number of records that a region has read of the ledger, repeated ones included.
fn read(region: &RegionServers) -> u64 {
    wait_for("the position in the ledger", || region.budgets()?["ledger"]["position"].as_u64())
}

/// Asserts that the copy has the entries of the ledger in their order, and some of them more than once.
fn assert_order_is_kept(regions: &TwoRegions) {
    let entries = entries(&regions.home, TopicSet::Ledger);
    let (ledger, _) = distinct(entries);
    wait_for("the copy of all entries", || {
        let (copy, repeated) = distinct(self::entries(&regions.far, TopicSet::LedgerMirror(COPY.to_owned())));
        let is_complete = copy.len() >= ledger.len();
        if is_complete {
            assert!(copy[..ledger.len()] == ledger[..], "the copy has another order");
            assert!(repeated > 0, "MirrorMaker repeats records after it was killed");
            eprintln!("{} entries in the ledger, {repeated} repeated in its copy", ledger.len());
        }
        is_complete.then_some(())
    });
}

/// Returns all records of the ledger in a region's Kafka, which is refused unless it keeps them for ever.
fn entries(region: &RegionServers, topics: TopicSet) -> Vec<Vec<u8>> {
    let bus = KafkaBus::new(KafkaSettings::new(&region.kafka.brokers()).carrying(topics)).expect("settings");
    bus.prepare(TIMEOUT).expect("the topic keeps all records");
    let end = wait_for("the end of the topic", || bus.next_offset(Topic::Ledger, 0));
    let mut reader = bus.reader(Topic::Ledger, &[0], ReadFrom::Oldest);
    let mut entries = Vec::new();
    wait_for("all records", || {
        let records = reader.poll(Duration::from_millis(100), 1_000);
        entries.extend(records.into_iter().map(|record| record.payload));
        (reader.next(0)? >= end).then_some(())
    });
    entries
}

/// Returns the first occurrence of each entry, and the number of the others.
fn distinct(mut entries: Vec<Vec<u8>>) -> (Vec<Vec<u8>>, usize) {
    let (all, mut seen) = (entries.len(), HashSet::new());
    entries.retain(|entry| seen.insert(entry.clone()));
    let repeated = all - entries.len();
    (entries, repeated)
}
