//! Scratch: one contender in a loop, for perf.
#![allow(dead_code, missing_docs, clippy::all, clippy::pedantic)]
#[path = "libraries/key_set.rs"]
mod key_set;
#[path = "libraries/contenders.rs"]
mod contenders;
#[path = "libraries/measure.rs"]
mod measure;
use std::time::Instant;
#[test]
fn run() {
    let args: Vec<String> = std::env::var("HOT").unwrap().split(';').map(str::to_owned).collect();
    let args = [vec![String::new()], args].concat();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let keys = if args[2] == "hot" { key_set::KeySet::hot() } else { key_set::KeySet::zipf_10k() };
    for contender in contenders::contenders().into_iter().filter(|c| c.name == args[1]) {
        measure::fill(&contender, &keys.keys);
        let secs: f64 = args[3].parse().unwrap();
        let start = Instant::now();
        let cpu = cpu();
        let mut calls = 0;
        for (n, block) in keys.blocks(0, 0).enumerate() {
            calls += block.len();
            (contender.decide)(block);
            if n % 128 == 0 && start.elapsed().as_secs_f64() > secs {
                break;
            }
        }
        println!("{}: {:.0} ns", contender.name, (self::cpu() - cpu) / calls as f64);
    }
}
fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}
