//! Cost of one step of a window; `add` and `used` together are one decision of a store.

use divan::{Bencher, black_box};
use tollgate_core::algorithm::{Algorithm, CounterState, Limit};
use tollgate_core::clock::Timestamp;
use tollgate_core::window::{Estimate, Ring, Window};

fn main() {
    divan::main();
}

fn now(call: u64) -> Timestamp {
    Timestamp::from_ms(1_763_700_000_000 + call / 100)
}

/// Reference: one addition to a number, with the same overhead of the benchmark.
#[divan::bench]
fn reference_add_to_a_number(bencher: Bencher) {
    let (mut call, mut count) = (0, 0_u64);
    bencher.bench_local(|| {
        call += 1;
        count += black_box(now(call).as_ms() & 1);
        count
    });
}

#[divan::bench(args = [1, 12, 60])]
fn ring_add_and_read(bencher: Bencher, parts: u32) {
    let window = Window::new(60_000, parts).unwrap();
    let mut ring = Ring::new(window);
    let mut call = 0;
    bencher.bench_local(|| {
        call += 1;
        ring.add(window.sub_window(now(call)), 1);
        ring.used(black_box(now(call)), Estimate::Interpolated)
    });
}

#[divan::bench(args = ["conservative", "interpolated", "log"])]
fn step(bencher: Bencher, algorithm: &str) {
    let algorithm = match algorithm {
        "conservative" => Algorithm::SlidingWindow(Estimate::Conservative),
        "interpolated" => Algorithm::SlidingWindow(Estimate::Interpolated),
        _ => Algorithm::SlidingLog,
    };
    let limit = Limit { algorithm, units: 100, window: Window::new(60_000, 12).unwrap(), burst: 0 };
    let mut state = CounterState::new(&limit);
    let mut call = 0;
    bencher.bench_local(|| {
        call += 1;
        state.step(&limit, black_box(now(call)), 1)
    });
}
