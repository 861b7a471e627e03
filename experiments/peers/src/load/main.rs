//! Load of rate limit servers: one thread, which needs little CPU itself, so that the server gets the rest of the machine.
//!
//! With a rate, calls are due at the instants of a Poisson process, whatever the server does, and a latency begins when its call
//! was due. Without one, each connection keeps a number of calls in flight, and the latency begins when a call is sent.

#![expect(clippy::disallowed_methods, reason = "a program outside the workspace reads the clock itself")]

mod settings;
mod rls;
mod workload;
mod http1;
mod http2;
mod connection;
mod measurement;

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use fastrand::Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use connection::Connection;
use measurement::{Measurement, cpu_us};
use settings::Settings;
use workload::Workload;

const TIMER_SLACK_NS: NonZeroU64 = NonZeroU64::new(1_000).unwrap();
/// Longest wait without a due call.
const WAIT_NS: u64 = 2_000_000;
/// Time for the last answers.
const DRAIN_NS: u64 = 2_000_000_000;
const BUFFER_BYTES: usize = 1 << 18;

/// Due instants of calls.
struct Arrivals {
    rate: f64,
    next_ns: f64,
    /// Calls that are due and not sent.
    due: VecDeque<u64>,
}

fn main() -> anyhow::Result<()> {
    let settings = Settings::parse();
    rustix::thread::set_current_timer_slack(Some(TIMER_SLACK_NS))?;
    let workload = Workload::new(&settings);
    let opened: anyhow::Result<Vec<_>> = (0..settings.connections).map(|_| Connection::open(&settings)).collect();
    let mut connections = opened.with_context(|| format!("connecting to {}", settings.address))?;
    let mut rng = Rng::with_seed(settings.seed);
    let mut arrivals = settings.rate.map(|rate| Arrivals { rate, next_ns: 0.0, due: VecDeque::new() });
    let (warm_up, measured) = (Duration::from_secs_f64(settings.warm_up), Duration::from_secs_f64(settings.seconds));
    let interval = as_ns(warm_up)..as_ns(warm_up + measured);
    let (mut begun, mut ended) = (None, None);
    let (mut measurement, mut answered, mut buffer) = (Measurement::default(), Vec::new(), vec![0; BUFFER_BYTES]);
    let (start, mut turn) = (Instant::now(), 0);
    loop {
        let now = as_ns(start.elapsed());
        if begun.is_none() && now >= interval.start {
            begun = Some((now, cpu(&settings)?));
        }
        if ended.is_none() && now >= interval.end {
            ended = Some((now, cpu(&settings)?));
        }
        if let Some((ended, _)) = ended {
            let in_flight = connections.iter().map(Connection::in_flight).sum::<usize>();
            if in_flight + arrivals.as_ref().map_or(0, |arrivals| arrivals.due.len()) == 0 || now > ended + DRAIN_NS {
                break;
            }
        }
        let mut wait = WAIT_NS;
        if let Some(arrivals) = &mut arrivals {
            if ended.is_none() {
                wait = arrivals.advance(now, &mut rng);
            }
            arrivals.send(&mut connections, &mut turn, || workload.draw(&mut rng));
        } else if ended.is_none() {
            for connection in &mut connections {
                while connection.in_flight() < settings.in_flight && connection.has_room() {
                    connection.send(workload.draw(&mut rng), now);
                }
            }
        }
        for connection in connections.iter_mut().filter(|connection| connection.has_output()) {
            connection.flush()?;
        }
        for ready in ready(&connections, wait)? {
            connections[ready].receive(&mut buffer, &mut answered)?;
        }
        let now = as_ns(start.elapsed());
        for (due, answer) in answered.drain(..) {
            // Calls of an open loop belong to the time in which they were due, and others to that of their answer.
            let instant = if arrivals.is_some() { due } else { now };
            if interval.contains(&instant) {
                measurement.record(now.saturating_sub(due), answer);
            }
        }
    }
    let ((begun, cpu_begun), (ended, cpu_ended)) = begun.zip(ended).context("the loop ends after the measurement")?;
    let cpu: Vec<u64> = cpu_begun.iter().zip(cpu_ended).map(|(begun, ended)| ended - begun).collect();
    println!("{}", measurement.json(Duration::from_nanos(ended - begun).as_secs_f64(), &cpu));
    Ok(())
}

impl Arrivals {
    /// Adds the calls that are due. Returns the time until the next one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a run")]
    fn advance(&mut self, now: u64, rng: &mut Rng) -> u64 {
        while self.next_ns as u64 <= now {
            self.due.push_back(self.next_ns as u64);
            self.next_ns += -(1.0 - rng.f64()).ln() / self.rate * 1e9;
        }
        self.next_ns as u64 - now
    }

    /// Sends due calls on the connections in turn, as far as they have room.
    fn send<'w>(&mut self, connections: &mut [Connection], turn: &mut usize, mut draw: impl FnMut() -> &'w [u8]) {
        let count = connections.len();
        while let Some(due) = self.due.front() {
            let Some(free) = (1..=count).map(|step| (*turn + step) % count).find(|nth| connections[*nth].has_room())
            else {
                return;
            };
            *turn = free;
            connections[free].send(draw(), *due);
            self.due.pop_front();
        }
    }
}

/// Waits until a connection is ready or the time is over. Returns those that are ready.
fn ready(connections: &[Connection], wait_ns: u64) -> anyhow::Result<Vec<usize>> {
    let flags = |connection: &Connection| {
        if connection.has_output() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
    };
    let mut waiting: Vec<_> = connections.iter().map(|connection| PollFd::new(connection, flags(connection))).collect();
    poll(&mut waiting, Some(&Timespec::try_from(Duration::from_nanos(wait_ns))?))?;
    let is_ready = |(nth, polled): (usize, &PollFd<'_>)| (!polled.revents().is_empty()).then_some(nth);
    Ok(waiting.iter().enumerate().filter_map(is_ready).collect())
}

fn cpu(settings: &Settings) -> anyhow::Result<Vec<u64>> {
    settings.processes.iter().map(|process| cpu_us(*process)).collect()
}

fn as_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
