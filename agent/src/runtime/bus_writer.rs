//! The thread that writes to the bus: it executes the effects of the [`Exchange`] and fetches the reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tollgate_bus::LogWriter;
use tollgate_core::clock::{Clock, Stopwatch};
use tollgate_engine::{Engine, Exchange, ExchangeEffect, ExchangeInput};
use tollgate_wire::Record;

use super::listeners::WakeFn;

/// Time for which a stop waits until the last records are in the log. A new log takes seconds on a busy machine.
const FLUSH_WAIT: Duration = Duration::from_secs(5);

pub(super) struct BusWriter<L> {
    engine: Arc<Engine>,
    exchange: Exchange,
    clock: Arc<dyn Clock>,
    calls: L,
    presence: L,
}

impl<L: LogWriter> BusWriter<L> {
    pub(super) fn new(engine: &Arc<Engine>, clock: &Arc<dyn Clock>, calls: L, presence: L) -> Self {
        let (engine, exchange) = (engine.clone(), Exchange::new(engine.clone()));
        Self { engine, exchange, clock: clock.clone(), calls, presence }
    }

    pub(super) fn run(&mut self, stop: &AtomicBool, supervisor: JoinHandle<()>) {
        let thread = std::thread::current();
        self.exchange.set_waker(Arc::new(WakeFn(move || thread.unpark())).into());
        while !stop.load(Ordering::Relaxed) {
            self.fetch_reports();
            self.poll(ExchangeInput::Tick);
            let now = self.clock.now();
            let wake_at = self.exchange.wake_at(now);
            let wake_at = self.exchange.reports_at(now).map_or(wake_at, |reports_at| reports_at.min(wake_at));
            std::thread::park_timeout(Duration::from_millis(wake_at.ms_since(now)));
        }
        let dropped_before = self.engine.dropped_rows();
        let is_refused = self.stop();
        // An attempt to prepare the bus may be under way, after which there is room. This is so in a short life.
        report_panic(&supervisor.join());
        if is_refused {
            self.stop();
        }
        let is_unreported = self.exchange.reports_at(self.clock.now()).is_some();
        if is_unreported || self.engine.dropped_rows() > dropped_before {
            let node = &self.engine.settings().node;
            tracing::warn!(%node, "the agent ends before the bus has acknowledged its last calls, so global counts and analytics may lack them; check that Kafka can be reached and acknowledges records within 5 s");
        }
    }

    /// Sends what is left and waits for its reports. Returns true if the bus refused a batch.
    fn stop(&mut self) -> bool {
        let is_refused = self.poll(ExchangeInput::Stop);
        let waited = Stopwatch::start();
        self.calls.flush(FLUSH_WAIT);
        self.presence.flush(FLUSH_WAIT.saturating_sub(waited.elapsed()));
        self.fetch_reports();
        is_refused
    }

    fn fetch_reports(&mut self) {
        for report in self.calls.reports() {
            let (partition, sequence, offset) = (report.partition, report.tag, report.offset);
            self.poll(ExchangeInput::Delivered { partition, sequence, offset });
        }
    }

    /// Polls the state machine with this input, and with the answers to its effects. Returns true if the bus refused a
    /// batch.
    fn poll(&mut self, input: ExchangeInput) -> bool {
        let (mut effects, mut is_refused) = (Vec::new(), false);
        self.exchange.poll(self.clock.now(), input, &mut effects);
        for effect in effects {
            match effect {
                ExchangeEffect::Append(batch) => {
                    let (partition, sequence) = (batch.name.partition, batch.name.sequence);
                    let is_accepted = self.calls.append(partition, batch.encode(), sequence).is_ok();
                    let accepted = ExchangeInput::Accepted { partition };
                    is_refused |= self.poll(if is_accepted { accepted } else { ExchangeInput::Refused(batch) });
                    is_refused |= !is_accepted;
                }
                ExchangeEffect::Announce(presence) => {
                    if self.presence.append(0, presence.encode(), 0).is_err() {
                        self.poll(ExchangeInput::Unannounced);
                    }
                    self.presence.reports();
                }
            }
        }
        is_refused
    }
}

pub(super) fn report_panic(joined: &std::thread::Result<()>) {
    if joined.is_err() {
        tracing::error!("a thread of the bus has panicked, and the batches that it held are lost");
    }
}
