//! Cost of a decision beside the libraries governor and throttlecrab, in the same run: the budget of a gateway's own thread.
//!
//! Prints ns of CPU per call on one thread and on two, the ratio to governor on as many threads, allocations per call
//! and bytes per counter, and the part of the cached denials that were checked at the counter. A call that a lease admits
//! is compared with a cached denial. Limits stand behind `<` and aims behind `~`; those of times hold for the set `10k`
//! (of leases for `hot`), and those of bytes for `1M`. Exits with 1 if a limit is missed; an aim that is missed is only reported. Redis, Kafka and
//! HTTP are not part of it: `redis_step` measures the store.
//!
//! Run: `cargo bench -p tollgate --features bus,metrics --bench libraries`; `-- --quick` for a short run.

mod key_set;
mod contenders;
mod measure;

use std::process::ExitCode;
use std::time::Duration;

use contenders::{Contender, Limit, contenders};
use key_set::KeySet;
use measure::{Effort, Turns, allocations, fill, median, rounds};

const FULL: Effort = Effort { rounds: 31, turn: Duration::from_millis(20) };
const QUICK: Effort = Effort { rounds: 7, turn: Duration::from_millis(5) };
/// Set whose bytes are measured.
const MEASURED_SET: &str = "1M";
const COUNTER_BYTES_MAX: f64 = 400.0;
/// Ratio of wall time to CPU time on one thread above which other processes often keep two threads from running at once.
const QUIET_RATIO_MAX: f64 = 1.2;

/// Columns of one number of threads.
struct Times {
    ns: f64,
    wall_ns: f64,
    ratio: f64,
    ratio_max: Option<Limit>,
    /// Part of the calls that were checked at the counter.
    checked: f64,
}

/// One contender with one key set.
struct Row {
    name: &'static str,
    keys: &'static str,
    /// On one thread, and on two.
    times: [Times; 2],
    allocations: f64,
    bytes: Option<f64>,
    bytes_max: Option<Limit>,
}

fn main() -> ExitCode {
    let effort = if std::env::args().any(|argument| argument == "--quick") { QUICK } else { FULL };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let _inside = runtime.enter();
    println!("                         one thread     two threads          alloc  checked bytes");
    println!("case                key   cpu x gov max   cpu wall x gov max  /call           /key max");
    let (mut missed, mut busy) = (Vec::new(), Vec::new());
    for keys in [KeySet::hot, KeySet::zipf_10k, KeySet::uniform_1m] {
        for row in rows(&keys(), effort) {
            println!("{}", row.line());
            missed.extend(row.missed());
            busy.push(row.times[0].wall_ns / row.times[0].ns);
        }
    }
    println!(
        "cpu, wall: ns per call. x gov: times governor's, which denies or admits, too. checked: part of the denials on"
    );
    println!("one thread that were checked at the counter, as each cached denial is every 250 ms.");
    let busy = median(busy.into_iter());
    if busy > QUIET_RATIO_MAX {
        println!("note: one thread took {busy:.1} times its CPU time, so two ran at once only in part");
    }
    let mut misses_limit = false;
    for (limit, miss) in missed {
        let is_limit = matches!(limit, Limit::Must(_));
        misses_limit |= is_limit;
        println!("{}: {miss}", if is_limit { "missed" } else { "aim not met" });
    }
    ExitCode::from(u8::from(misses_limit))
}

fn rows(keys: &KeySet, effort: Effort) -> Vec<Row> {
    let contenders = contenders();
    let bytes: Vec<f64> = contenders.iter().map(|contender| fill(contender, &keys.keys)).collect();
    let allocations: Vec<f64> = contenders.iter().map(|contender| allocations(contender, keys, effort)).collect();
    let turns = [1, 2].map(|threads| rounds(&contenders, keys, threads, effort));
    let row = |(position, contender): (usize, &Contender)| {
        let is_timed = keys.name == contender.timed_set;
        let times =
            |threads: usize| Times::of(&turns[threads][position], contender.ratios_max[threads].filter(|_| is_timed));
        let holds_table_only = contender.flush.is_none() && keys.name == MEASURED_SET;
        Row {
            name: contender.name,
            keys: keys.name,
            times: [times(0), times(1)],
            allocations: allocations[position],
            bytes: holds_table_only.then_some(bytes[position]),
            bytes_max: (holds_table_only && contender.limits_bytes).then_some(Limit::Must(COUNTER_BYTES_MAX)),
        }
    };
    contenders.iter().enumerate().map(row).collect()
}

impl Times {
    fn of(turns: &Turns, ratio_max: Option<Limit>) -> Self {
        let Turns { own, reference } = turns;
        let reference = if reference.is_empty() { own } else { reference };
        Self {
            ns: median(own.iter().map(|turn| turn.cpu_ns)),
            wall_ns: median(own.iter().map(|turn| turn.wall_ns)),
            ratio: median(own.iter().zip(reference).map(|(own, reference)| own.cpu_ns / reference.cpu_ns)),
            ratio_max,
            checked: median(own.iter().map(|turn| turn.checked)),
        }
    }
}

impl Row {
    fn line(&self) -> String {
        let max = |limit: Option<Limit>| match limit {
            Some(Limit::Must(max)) => format!("<{max}"),
            Some(Limit::Aim(max)) => format!("~{max}"),
            None => String::new(),
        };
        let [one, two] = &self.times;
        let line = format!(
            "{:<19} {:>3} {:>5.0} {:>5.1} {:<4} {:>4.0} {:>4.0} {:>5.1} {:<4} {:>5.2} {:>7} {:>7} {}",
            self.name,
            self.keys,
            one.ns,
            one.ratio,
            max(one.ratio_max),
            two.ns,
            two.wall_ns,
            two.ratio,
            max(two.ratio_max),
            self.allocations,
            if one.checked > 0.0 { format!("{:.1}%", 100.0 * one.checked) } else { String::new() },
            self.bytes.map_or_else(String::new, |bytes| format!("{bytes:.0}")),
            max(self.bytes_max),
        );
        line.trim_end().to_owned()
    }

    /// Returns the limits and aims that the row misses, in words.
    fn missed(&self) -> Vec<(Limit, String)> {
        let [one, two] = &self.times;
        let checks = [
            ("times governor on one thread", Some(one.ratio), one.ratio_max),
            ("times governor on two threads", Some(two.ratio), two.ratio_max),
            ("bytes per counter", self.bytes, self.bytes_max),
        ];
        let miss = |(what, value, limit): (&str, Option<f64>, Option<Limit>)| {
            let (value, limit) = (value?, limit?);
            let max = limit.max();
            (value > max).then(|| (limit, format!("{}: {value:.1} {what}, at most {max}", self.name)))
        };
        checks.into_iter().filter_map(miss).collect()
    }
}
