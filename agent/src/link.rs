//! The agent's link to the bus: two threads that move what the limiter has to say and what it is to hear.
//!
//! No call waits for them. The writer hands batches over, brings delivery reports back and shows the agent's presence; the
//! reader brings signals and presence. On stopping, the writer sends what is left and says goodbye.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_common::bus::{Bus, From, Full, Log, Reader, Topic};
use tollgate_common::clock::{Clock, Timestamp};
use tollgate_common::presence::{INTERVAL_MS, Presence};
use tollgate_common::signal::SignalBatch;
use tollgate_common::wire::Record;

use crate::limiter::{Limiter, Outgoing};

/// How long the reader waits for records before it looks whether it should stop.
const READ_WAIT: Duration = Duration::from_millis(50);
const READ_RECORDS_MAX: usize = 1_000;
/// How long the writer sleeps at most, and at least, so that it neither misses its time nor spins.
const WRITE_SLEEP_MAX_MS: u64 = 5;
/// How often the limiter's housekeeping runs, in ms.
const TICK_MS: u64 = 100;

pub(crate) struct Link {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Link {
    /// Starts both threads.
    pub(crate) fn start<B: Bus>(bus: &B, limiter: &Arc<Limiter>, clock: &Arc<dyn Clock>) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut link = Self { stop: stop.clone(), threads: Vec::new() };
        let partitions: Vec<_> = (0..bus.partitions(Topic::Signals)).collect();

        let signals = bus.read(Topic::Signals, &partitions, From::Next);
        let presence = bus.read(Topic::Presence, &[0], From::Next);
        let (heard, time, stopped) = (limiter.clone(), clock.clone(), stop.clone());
        let read = move || read(&heard, &*time, signals, presence, &stopped);
        link.threads.push(std::thread::Builder::new().name("tollgate-read".into()).spawn(read)?);

        let (calls, presence) = (bus.log(Topic::Calls), bus.log(Topic::Presence));
        let (said, time) = (limiter.clone(), clock.clone());
        let write = move || write(&said, &*time, calls, presence, &stop);
        link.threads.push(std::thread::Builder::new().name("tollgate-write".into()).spawn(write)?);
        Ok(link)
    }

    /// Sends what is left and ends the threads.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            if thread.join().is_err() {
                tracing::error!("a thread of the bus link had died; what it held is lost");
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read<R: Reader>(limiter: &Limiter, clock: &dyn Clock, mut signals: R, mut presence: R, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        for record in signals.poll(READ_WAIT, READ_RECORDS_MAX) {
            match SignalBatch::decode(&record.payload) {
                Ok(batch) => limiter.hear_signals(clock.now(), &batch),
                Err(_) => limiter.hear_noise(),
            }
        }
        for record in presence.poll(Duration::ZERO, READ_RECORDS_MAX) {
            match Presence::decode(&record.payload) {
                Ok(presence) => limiter.hear_presence(clock.now(), &presence),
                Err(_) => limiter.hear_noise(),
            }
        }
    }
}

fn write<L: Log>(limiter: &Limiter, clock: &dyn Clock, mut calls: L, mut presence: L, stop: &AtomicBool) {
    let (mut shown_at, mut ticked_at) = (Timestamp::default(), Timestamp::default());
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        send_batches(limiter, &mut calls, limiter.batches_due(now));
        if now.ms_since(shown_at) >= INTERVAL_MS {
            shown_at = now;
            // A presence that finds no room is shown again in a second.
            let _ = presence.append(0, limiter.presence(now, false).encode(), 0);
            presence.reports();
        }
        if now.ms_since(ticked_at) >= TICK_MS {
            ticked_at = now;
            limiter.tick(now);
        }
        let sleep_ms = limiter.batches_due_at().ms_since(clock.now()).clamp(1, WRITE_SLEEP_MAX_MS);
        std::thread::park_timeout(Duration::from_millis(sleep_ms));
    }
    let last = limiter.batches_left(clock.now());
    send_batches(limiter, &mut calls, last);
    let _ = presence.append(0, limiter.presence(clock.now(), true).encode(), 0);
}

fn send_batches<L: Log>(limiter: &Limiter, calls: &mut L, batches: Vec<Outgoing>) {
    let mut full = Vec::new();
    for batch in batches {
        if full.contains(&batch.partition) {
            // None overtakes one that waits: signals count a partition's batches in their order.
            limiter.batch_refused(batch);
        } else if let Err(Full(payload)) = calls.append(batch.partition, batch.payload, batch.sequence) {
            full.push(batch.partition);
            limiter.batch_refused(Outgoing { payload, ..batch });
        }
    }
    for report in calls.reports() {
        limiter.hear_report(&report);
    }
}
