//! CPU time of an aggregator's counting for a million calls, alone and with analytics, beside a raw drain of the same records by
//! librdkafka, in the same run.
//!
//! An agent publishes the calls of 10,000 callers (Zipf 1.1) under two rules over a real Redis to a real Kafka, at 20,000 calls/s. Then each way reads
//! all records from the start, at the time of the log: the drain drops them, counting decodes and counts them and encodes the signals,
//! and analytics also sum the calls and encode the rollups of each second and minute; the last way has a cap that most callers are past. CPU time is that of all threads of this process, so that of librdkafka is contained. A round
//! runs each way once; the ratio of a round compares ways of that round.
//!
//! The limit stands behind `<`. The program exits with 1 if the median is above it.
//!
//! Run: `scripts/servers`, then `cargo bench -p tollgate-lab --bench counting`; `-- --quick` for a short run.

use std::process::ExitCode;
use std::time::Duration;

use fastrand::Rng;
use rustix::time::{ClockId, clock_gettime};
use tollgate::{Agent, Call, Rule};
use tollgate_aggregator_engine::analytics::AnalyticsSettings;
use tollgate_aggregator_engine::worker::{Worker, WorkerEffect, WorkerInput, WorkerSettings};
use tollgate_bus::kafka::{KafkaBus, KafkaSettings};
use tollgate_bus::{Bus, BusRecord, LogReader, ReadFrom, Topic};
use tollgate_core::clock::{Stopwatch, Timestamp};
use tollgate_core::messages::calls::Batch;
use tollgate_core::messages::signals::LogEnd;
use tollgate_lab::live::skewed_callers::caller;
use tollgate_servers::{Kafka, Redis};
use tollgate_wire::Record;

const PER_SECOND: u64 = 20_000;
/// Calls of a run, and of one with `--quick`.
const CALLS: u64 = 1_000_000;
const QUICK_CALLS: u64 = 100_000;
const ROUNDS: usize = 5;
/// Maximum CPU time with analytics, in that of counting alone.
const ANALYTICS_MAX: f64 = 1.5;
/// Cap on the callers of a rule in the last way, which most callers are past.
const FEW_CALLERS: usize = 500;
const WAIT: Duration = Duration::from_secs(10);
const POLL_WAIT: Duration = Duration::from_millis(100);
const RECORDS_MAX: usize = 500;

/// Way of reading the records.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Drain,
    Counting,
    Analytics(AnalyticsSettings),
}

const WAYS: usize = 4;

fn main() -> ExitCode {
    let calls = if std::env::args().any(|arg| arg == "--quick") { QUICK_CALLS } else { CALLS };
    let kafka = Kafka::start();
    let bus = KafkaBus::new(KafkaSettings::new(&kafka.brokers()).partitioned(1)).expect("the settings are valid");
    bus.prepare(WAIT).expect("the topics are created");
    publish(&bus, calls);
    let end = bus.log_end(Topic::Calls, 0).expect("Kafka answers");
    let bytes = read(&bus, end, Way::Drain).1 as u64 / calls;
    println!(
        "{calls} calls of two rules in {} records, {bytes} bytes a call; us of CPU for a call, and the median of {ROUNDS} rounds",
        end.next
    );
    let few = AnalyticsSettings::with_callers_max(FEW_CALLERS);
    let ways: [(&str, Way); WAYS] = [
        ("drain", Way::Drain),
        ("counting", Way::Counting),
        ("counting with analytics", Way::Analytics(AnalyticsSettings::default())),
        ("past the cap on callers", Way::Analytics(few)),
    ];
    let mut us: Vec<[f64; WAYS]> = Vec::new();
    for _ in 0..ROUNDS {
        us.push(ways.map(|(_, way)| per_call(read(&bus, end, way).0, calls)));
    }
    let of = |figure: &dyn Fn(&[f64; WAYS]) -> f64| median(us.iter().map(figure).collect());
    for (place, (name, _)) in ways.iter().enumerate() {
        let (median, by_drain) = (of(&|us| us[place]), of(&|us| us[place] / us[0]));
        println!("{name:24} {median:6.3} us  {by_drain:5.1} x drain");
    }
    let ratio = of(&|us| us[2] / us[1]);
    let is_kept = ratio < ANALYTICS_MAX;
    println!(
        "with analytics           {ratio:6.2} x counting alone < {ANALYTICS_MAX}{}",
        if is_kept { "" } else { "  MISSED" }
    );
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Publishes so many calls, which are all admitted.
fn publish(bus: &KafkaBus, calls: u64) {
    let redis = Redis::start();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let quota = |per: &str| Rule::per(per, &[per], "1000000/min".parse().expect("a quota"));
        let builder = Agent::builder().rule(quota("api_key")).rule(quota("tenant")).bus(bus.clone());
        let builder = builder.redis(&*redis.url());
        let agent = builder.start().expect("the agent starts");
        let (mut rng, began) = (Rng::with_seed(7), Stopwatch::start());
        for number in 0..calls {
            if number.is_multiple_of(PER_SECOND / 100) {
                let due = Duration::from_millis(number * 1_000 / PER_SECOND);
                tokio::time::sleep(due.saturating_sub(began.elapsed())).await;
            }
            let (caller, tenant) = (caller(&mut rng), rng.u8(0..8));
            let call = Call::new()
                .with("api_key", format!("k{caller}"))
                .with("tenant", format!("t{tenant}"))
                .with("endpoint", "/search")
                .with("method", "GET");
            drop(agent.check(&call).await.expect("the quotas are large"));
        }
        agent.shutdown().await;
    });
}

/// Reads all records in a way. Returns the CPU time of this process for it, and the bytes of the records.
fn read(bus: &KafkaBus, end: LogEnd, way: Way) -> (Duration, usize) {
    let before = cpu();
    let mut aggregator = match way {
        Way::Drain => None,
        Way::Counting => Some(Aggregator::new(None)),
        Way::Analytics(settings) => Some(Aggregator::new(Some(settings))),
    };
    let mut reader = bus.reader(Topic::Calls, &[0], ReadFrom::Oldest);
    let (mut bytes, waited) = (0, Stopwatch::start());
    while reader.next(0).is_none_or(|next| next < end.next) {
        assert!(waited.elapsed() < 6 * WAIT, "Kafka delivers the records");
        for record in reader.poll(POLL_WAIT, RECORDS_MAX) {
            bytes += record.payload.len();
            if let Some(aggregator) = &mut aggregator {
                aggregator.count(&record);
            }
        }
    }
    assert!(bytes > 0 && aggregator.is_none_or(|aggregator| aggregator.published > 0), "the calls are read");
    (cpu().saturating_sub(before), bytes)
}

/// An aggregator that owns the partition, at the time of the log. Its records are encoded and dropped.
struct Aggregator {
    worker: Worker,
    /// Bytes of signals and rollups.
    published: usize,
}

impl Aggregator {
    fn new(analytics: Option<AnalyticsSettings>) -> Self {
        Self { worker: Worker::new(WorkerSettings { analytics, ..WorkerSettings::new("a") }, 1), published: 0 }
    }

    fn count(&mut self, record: &BusRecord) {
        let BusRecord { partition, offset, appended, ref payload } = *record;
        self.poll(appended, WorkerInput::Tick);
        let batch = Batch::decode(payload).expect("a batch");
        self.poll(appended, WorkerInput::Record { partition, offset, appended, batch: Ok(&batch) });
    }

    fn poll(&mut self, now: Timestamp, input: WorkerInput<'_>) {
        let mut effects = Vec::new();
        self.worker.poll(now, input, &mut effects);
        for effect in effects {
            match effect {
                // Without an earlier record, it publishes from the first one on.
                WorkerEffect::FindLogEnd(partition) => {
                    self.poll(now, WorkerInput::LogEnd { partition, end: Some(LogEnd { log: 1, next: 0 }) });
                    self.poll(now, WorkerInput::Position { partition, next: 0 });
                }
                WorkerEffect::Publish { tag, batch } => {
                    self.published += batch.encode().len();
                    self.poll(now, WorkerInput::Reported { tag, is_lost: false });
                }
                WorkerEffect::PublishRollups { topic, tag, batch } => {
                    self.published += batch.encode().len();
                    if topic == Topic::Rollups {
                        self.poll(now, WorkerInput::RollupsReported { tag, is_lost: false });
                    }
                }
                WorkerEffect::DeadLetter { letter, .. } => panic!("{letter:?}"),
                _ => {}
            }
        }
    }
}

fn cpu() -> Duration {
    clock_gettime(ClockId::ProcessCPUTime).try_into().expect("a time")
}

fn per_call(cpu: Duration, calls: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number of calls")]
    let calls = calls as f64;
    cpu.as_secs_f64() * 1e6 / calls
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
