//! The way between the parts: draws the delay and the fault of each message from one random number generator.

use fastrand::Rng;

use super::faults::Faults;

/// The network of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) faults: Faults,
    pub(super) bus_is_up: bool,
    rng: Rng,
}

/// A fault of a record on its way to the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RecordFault {
    /// It is lost.
    Lost,
    /// It is appended, and once more later.
    Duplicated,
    /// It is appended behind an undecodable record.
    BehindGarbage,
}

/// A fault of the report to the writer of a record that was appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckFault {
    /// It says that the record is lost.
    Negated,
    /// It never arrives.
    Lost,
}

/// A fault of a request at a store that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestFault {
    /// It is refused.
    Refused,
    /// It is executed, and the connection breaks before the answer.
    AnswerLost,
}

impl Network {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        Self { faults, bus_is_up: true, rng: Rng::with_seed(seed) }
    }

    /// Returns the delay of a message between an agent and the store.
    pub(super) fn store_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.store_ms_max)
    }

    /// Returns the delay of a record on its way to the bus.
    pub(super) fn append_delay_ms(&mut self) -> u64 {
        self.faults.bus_late_ms + self.rng.u64(0..=self.faults.bus_ms_max)
    }

    /// Returns the delay of the second copy of a record behind the first one.
    pub(super) fn copy_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=3 * self.faults.bus_ms_max)
    }

    /// Returns the delay of a reader behind the end of a log.
    pub(super) fn read_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.bus_ms_max)
    }

    pub(super) fn ack_delay_ms(&mut self) -> u64 {
        self.rng.u64(0..=self.faults.ack_ms_max)
    }

    pub(super) fn request_fault(&mut self) -> Option<RequestFault> {
        let Faults { store_refused_percent, store_answer_lost_percent, .. } = self.faults;
        self.draw([
            (store_refused_percent, RequestFault::Refused),
            (store_answer_lost_percent, RequestFault::AnswerLost),
        ])
    }

    pub(super) fn record_fault(&mut self) -> Option<RecordFault> {
        let Faults { record_lost_percent, record_duplicated_percent, garbage_percent, .. } = self.faults;
        self.draw([
            (record_lost_percent, RecordFault::Lost),
            (record_duplicated_percent, RecordFault::Duplicated),
            (garbage_percent, RecordFault::BehindGarbage),
        ])
    }

    pub(super) fn ack_fault(&mut self) -> Option<AckFault> {
        let Faults { ack_negated_percent, ack_lost_percent, .. } = self.faults;
        self.draw([(ack_negated_percent, AckFault::Negated), (ack_lost_percent, AckFault::Lost)])
    }

    /// Draws one of several faults that exclude each other, by their percentages.
    fn draw<F, const N: usize>(&mut self, faults: [(u8, F); N]) -> Option<F> {
        let mut drawn = self.rng.u8(0..100);
        let strikes = |(percent, _): &(u8, F)| {
            let strikes = drawn < *percent;
            drawn = drawn.saturating_sub(*percent);
            strikes
        };
        faults.into_iter().find(strikes).map(|(_, fault)| fault)
    }
}
